// SPDX-License-Identifier: Apache-2.0
// The question of a rule, where the op on a slice is made to be wrong.
#include <gtest/gtest.h>
#include <torch/library.h>

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
