// SPDX-License-Identifier: Apache-2.0
// The bound of an op's rounding: what no order of its additions can reach is a difference, and what one can
// is none.
#include "oracle/judge/bound.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "oracle/judge/families.h"
#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

constexpr double kHuge = 1e300, kNaN = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

Input given(const std::vector<double>& values, std::vector<int64_t> shape) {
  std::vector<uint64_t> bits;
  for (const double v : values) bits.push_back(std::bit_cast<uint64_t>(v));
  return {c10::ScalarType::Double, std::move(shape), {}, {ValueKind::kBits, 0, 0, 0, bits}, false};
}

// The bound of a Program's only call, and its plain answer.
struct Question {
  Reference reference;
  at::Tensor plain;
  bool within(const at::Tensor& actual) const {
    at::Tensor bound = at::add(at::mul(reference.magnitude, reference.factor), reference.floor);
    if (reference.lost.defined()) bound = at::add(bound, reference.lost);
    return at::le(at::sub(actual, reference.value).abs(), bound).all().item<bool>();
  }
};
Question ask(std::vector<Input> inputs, Call call, c10::ScalarType dtype = at::kDouble) {
  Case c;
  c.mesh = DeviceMesh({1});
  c.device = {1, 256};
  for (size_t i = 0; i < inputs.size(); ++i) c.placements.push_back({parse_placements("[R]"), {}});
  c.program.inputs = std::move(inputs);
  c.program.calls = {std::move(call)};
  SimulatedSource source;
  const PlainRun run = evaluate_recorded(c, source);
  const RecordedOp& op = run.recording.ops.at(0);
  std::vector<WideInput> wide;
  for (const Window& w : op.inputs) wide.push_back(widen({run.recording.read(w)}, {}, {}));
  return {references(*find_family(op.op->name), op, effects(op), wide, dtype).at(0), run.values.back()};
}

// addmm may multiply one matrix by alpha first, below the smallest number. Would catch: a bound that knows
// only what the products lose, and one so wide that it forgives a row of ordinary numbers.
TEST(Bound, AFactorMayBeMultipliedFirst) {
  const double least = std::numeric_limits<double>::denorm_min();
  const Call product{"aten::addmm", {Ref{0}, Ref{1}, Ref{2}, 0.0, -0.5}, 1};
  const auto asked = ask({given({0}, {1}), given({kHuge, 1}, {2, 1}), given({least}, {1, 1})}, product);
  const at::Tensor lost = at::zeros({2, 1}, at::kDouble);
  EXPECT_TRUE(asked.within(lost));
  EXPECT_FALSE(asked.within(at::add(lost, kHuge * least * 4)));
  const auto row = ask({given({0}, {1}), given({kHuge, 1e-10}, {2, 1}), given({1e-10}, {1, 1})}, product);
  at::Tensor wrong = row.plain.clone();
  wrong[1].fill_(0);
  EXPECT_FALSE(row.within(wrong));
}

// What is shifted is rounded as its range is large, also where the result is 0. Would catch: a bound of the
// result alone, and one that forgives more than a rounding of the greatest.
TEST(Bound, OfALogarithmOfShiftedNumbersIsThatOfTheirRange) {
  const Call log_softmax{"aten::_log_softmax", {Ref{0}, int64_t{1}, false}, 1};
  const auto asked = ask({given({-1000, 0}, {1, 2})}, log_softmax);
  EXPECT_TRUE(asked.within(at::add(asked.plain, 1e-13))) << asked.plain;
  EXPECT_FALSE(asked.within(at::add(asked.plain, 1e-11)));
}

// So is an exponential, by as much of itself. Would catch: a bound of its own last bits.
TEST(Bound, OfAnExponentialIsThatOfItsExponent) {
  const Call softmax{"aten::_softmax", {Ref{0}, int64_t{1}, false}, 1};
  const auto asked = ask({given({-700, 0}, {1, 2})}, softmax);
  EXPECT_TRUE(asked.within(at::mul(asked.plain, 1 + 1e-13))) << asked.plain;
  EXPECT_FALSE(asked.within(at::mul(asked.plain, 1 + 1e-11)));
}

// A norm of tiny numbers may be 0, since their squares are. Would catch: a bound that takes the norm for
// exact to its last bits, and one that forgives a norm whose square is an ordinary number.
TEST(Bound, SquaresOfTinyNumbersVanish) {
  const Call norm{"aten::linalg_vector_norm", {Ref{0}, 2.0, std::vector<int64_t>{1}, false, None{}}, 1};
  const auto asked = ask({given({3e-170, 4e-170, 3e-150, 4e-150}, {2, 2})}, norm);
  at::Tensor vanished = asked.plain.clone();
  vanished[0].fill_(0);
  EXPECT_TRUE(asked.within(vanished)) << asked.plain;
  vanished[1].fill_(0);
  EXPECT_FALSE(asked.within(vanished));
}

// What is subnormal is not flushed. Would catch: a bound as large as the least normal number.
TEST(Bound, SubnormalNumbersAreNumbers) {
  const Call sum{"aten::sum.dim_IntList", {Ref{0}, std::vector<int64_t>{1}, false, None{}}, 1};
  const auto asked = ask({given({1e-310, 2e-310}, {1, 2})}, sum);
  EXPECT_TRUE(asked.within(asked.plain));
  EXPECT_FALSE(asked.within(at::zeros_like(asked.plain)));
}

// Short types are added up in float. Would catch: a bound of as many roundings in the short type itself.
TEST(Bound, ShortTypesAreAddedUpInFloat) {
  const auto ones = [](std::vector<int64_t> shape) {
    return Input{c10::ScalarType::BFloat16, std::move(shape), {}, {ValueKind::kOnes, 0, 0, 0, {}}, false};
  };
  const auto asked = ask({ones({1, 256}), ones({256, 1})}, {"aten::mm", {Ref{0}, Ref{1}}, 1}, at::kBFloat16);
  EXPECT_TRUE(asked.within(at::mul(asked.plain.to(at::kDouble), 1 + 0x1p-8)));
  EXPECT_FALSE(asked.within(at::mul(asked.plain.to(at::kDouble), 1.05)));
}

}  // namespace
}  // namespace lockstep::oracle
