// SPDX-License-Identifier: Apache-2.0
// The question of a rule, where the op on a slice is made to be wrong.
#include <gtest/gtest.h>
#include <torch/library.h>

#include <limits>

#include "oracle/judge/rule_question.h"
#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

constexpr int64_t kWhole = 6;

// In float64, on less than the whole, each element is a little more than it is; the case itself is of
// another dtype, so that no bit of it shows.
at::Tensor skewed(const at::Tensor& t) {
  const bool acts = t.scalar_type() == at::kDouble && t.numel() < kWhole;
  return t.mul(acts ? -1 - 0x1p-40 : -1);
}

Judgement negated() {
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  c.program.inputs = {{at::kFloat, {kWhole}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
  c.program.calls = {{"aten::neg", {Ref{0}}, 1}};
  c.placements = {{parse_placements("[S0]"), {}}};
  HandEngine e(c);
  const Held x = e.input(0);
  const Held y = e.op("aten::neg", {x}, {}, e.plain().values[1], "[S0]",
                      [](const std::vector<at::Tensor>& in) { return at::neg(in[0]); });
  return e.judge({x, y});
}

// Would catch: a term that is wrong by less than a tolerance of float64.
TEST(RuleQuestion, OfSumsAndProductsHasNoTolerance) {
  EXPECT_TRUE(negated().equal);
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("neg", skewed);
  const Judgement judgement = negated();
  ASSERT_FALSE(judgement.passed());
  EXPECT_EQ(judgement.mismatch->condition, Condition::kRule) << describe(judgement);
  EXPECT_EQ(judgement.mismatch->bound, 0);
  EXPECT_NE(judgement.mismatch->expected, 0);
  EXPECT_NEAR(judgement.mismatch->actual / judgement.mismatch->expected, 1, 1e-9);
}

// Would catch: terms that may be cast to integers one by one, since whole numbers are.
TEST(RuleQuestion, OfACastToIntegersIsAskedOnFractions) {
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  c.program.inputs = {{at::kDouble, {40}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
  c.program.calls = {{"aten::to.dtype", {Ref{0}, at::kLong, false, false, None{}}, 1}};
  c.placements = {{parse_placements("[P]"), {}}};
  HandEngine e(c);
  const Held x = e.input(0);
  const Held y = e.op("aten::_to_copy", {x}, {at::kLong, {}, {}, {}, false, {}}, e.plain().values[1], "[P]",
                      [](const std::vector<at::Tensor>& in) { return in[0].to(at::kLong); });
  const Recording& recording = e.plain().recording;
  const RecordedOp& op = recording.ops.at(0);
  const Shadow shadow(recording);
  const TensorRecord from = x.record(), to = y.record();
  const OpInQuestion q{op,          e.timeline.at(0),
                       effects(op), {&from},
                       {&to},       {shadow.rendition(op.inputs[0], x.locals, *slicing_of(*x.spec))},
                       Lane::kExact};
  EXPECT_THROW(ask_rule(q, recording, shadow), Mismatched);  // what no licence lets it be asked
}

// Would catch: a factor that sums are not exact by, taken for a small integer.
TEST(RuleQuestion, IsNotExactByAFactorThatRounds) {
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  const auto given = [&c](std::vector<int64_t> shape, uint64_t seed, const char* placements) {
    c.program.inputs.push_back(
        {at::kDouble, std::move(shape), {}, {ValueKind::kIntegers, seed, -3, 3, {}}, false});
    c.placements.push_back({parse_placements(placements), {}});
  };
  given({8, 8}, 1, "[P]");
  given({8, 40}, 2, "[S1]");
  given({40, 8}, 3, "[S0]");
  const auto judged = [&c](double beta, const auto& alpha) {
    c.program.calls = {{"aten::addmm", {Ref{0}, Ref{1}, Ref{2}, beta, alpha}, 1}};
    HandEngine e(c);
    const Held a = e.input(0), x = e.input(1), y = e.input(2);
    const Held sum =
        e.op("aten::addmm", {a, x, y}, {beta, alpha}, e.plain().values[3], "[P]",
             [&](const std::vector<at::Tensor>& in) { return at::addmm(in[0], in[1], in[2], beta, alpha); });
    const Judgement judgement = e.judge({a, x, y, sum});
    EXPECT_TRUE(judgement.passed()) << alpha << ": " << describe(judgement);
  };
  for (const double alpha : {2.0, 1e-3, 1e30}) judged(1.0, alpha);
  c.placements[0] = {parse_placements("[R]"), {}};  // a factor of what pends is positive
  for (const double alpha : {-2.0, -1e-3, -1e30}) judged(0.0, alpha);
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();  // of which there is no magnitude: sanitizers
  for (const int64_t alpha : {int64_t{-2}, int64_t{-1000000000000007}, int64_t{1000000000000007}, kLeast})
    judged(0.0, alpha);
}

// Would catch: a product of so many numbers that it vanishes on both sides, whatever the rule.
TEST(RuleQuestion, OfAProductOfManyIsOneOfNumbersNearOne) {
  constexpr int64_t kMany = 4000;
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  c.program.inputs = {{at::kDouble, {kMany}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
  c.program.calls = {{"aten::prod", {Ref{0}, None{}}, 1}};
  c.placements = {{parse_placements("[S0]"), {}}};
  for (const bool wrong : {false, true}) {
    HandEngine e(c);
    const Held x = e.input(0);
    const Held y = e.op("aten::prod", {x}, {c10::IValue()}, e.plain().values[1], wrong ? "[P]" : "[Pprod]",
                        [](const std::vector<at::Tensor>& in) { return at::prod(in[0]); });
    EXPECT_EQ(e.judge({x, y}).passed(), !wrong);
  }
}

}  // namespace
}  // namespace lockstep::oracle
