// SPDX-License-Identifier: Apache-2.0
// One op in question, where loops of a stock kernel give other bits than the plain run's did.
#include "oracle/judge/judge_op.h"

#include <gtest/gtest.h>
#include <torch/library.h>

#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Locals = std::vector<at::Tensor>;

// An op of inputs that are cut along dimension 0.
Case cut(int64_t ranks, Call call, std::vector<Input> inputs) {
  Case c;
  c.mesh = DeviceMesh({ranks});
  c.device = {1, 256};
  c.placements.assign(inputs.size(), {parse_placements("[S0]"), {}});
  c.program.inputs = std::move(inputs);
  c.program.calls = {std::move(call)};
  return c;
}

Input floats(std::vector<uint64_t> bits) {
  const auto size = static_cast<int64_t>(bits.size());
  return {ScalarType::Float, {size}, {}, {ValueKind::kBits, 0, 0, 0, std::move(bits)}, false};
}

// Another NaN, and negated else; `off` by one where it does not ask for a rule, in float64.
template <bool off>
at::Tensor otherwise_negated(const at::Tensor& t) {
  const at::Tensor result = t.mul(-1);
  if (t.scalar_type() != at::kFloat) return result;
  result.view(at::kInt).masked_fill_(t.isnan(), 0x7fc01234);
  return off ? result.add_(1) : result;
}

// Would catch: a NaN that another loop leaves called an overflow, and a number so excused.
TEST(JudgeOp, AReplayMayLeaveAnotherNan) {
  const Case c =
      cut(3, {"aten::neg", {Ref{0}}, 1}, {floats({0x3f800000, 0x7fc00000, 0x40000000, 0xbf800000})});
  for (const bool off : {false, true}) {
    HandEngine e(c);
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library.impl("neg", off ? otherwise_negated<true> : otherwise_negated<false>);
    const Held x = e.input(0);
    const Held y = e.op("aten::neg", {x}, {}, e.plain().values[1], "[S0]",
                        [](const Locals& in) { return at::neg(in[0]); });
    const Judgement j = e.judge({x, y});
    if (off) {
      ASSERT_FALSE(j.passed());
      EXPECT_EQ(j.mismatch->condition, Condition::kOp) << describe(j);
      EXPECT_NE(j.mismatch->text.find("gives, though it reads the same"), std::string::npos) << describe(j);
    } else {
      ASSERT_TRUE(j.passed() && j.explained.size() == 1) << describe(j);
      EXPECT_EQ(j.explained[0].why, Why::kLocalKernel);
    }
  }
}

// Negated; of few numbers of one dtype not quite.
template <ScalarType dtype, int kind>
at::Tensor nearly_negated(const at::Tensor& t) {
  const at::Tensor result = t.mul(-1);
  if (t.scalar_type() != dtype || t.numel() >= 4) return result;
  if (kind == 0) result.view(at::kInt).bitwise_xor_(1);
  return kind == 1 ? result.mul_(1 + 0x1p-5) : kind == 2 ? result.fill_(NAN) : result;
}

Judgement of_a_kernel(at::Tensor (*kernel)(const at::Tensor&)) {
  HandEngine e(
      cut(2, {"aten::neg", {Ref{0}}, 1}, {floats({0x3f800000, 0x40400000, 0x40000000, 0xbf800000})}));
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("neg", kernel);
  const Held x = e.input(0);
  const Held y = e.op("aten::neg", {x}, {}, e.plain().values[1], "[S0]",
                      [&](const Locals& in) { return kernel(in[0]); });
  return e.judge({x, y});
}

// Would catch: a rule under which ordinary numbers come to NaN, or are off by a thirty-second, in float64,
// where the bits of the case happen to be right.
TEST(JudgeOp, ARuleIsAskedOfOrdinaryNumbers) {
  for (const auto kernel : {nearly_negated<ScalarType::Double, 1>, nearly_negated<ScalarType::Double, 2>}) {
    const Judgement j = of_a_kernel(kernel);
    ASSERT_FALSE(j.passed());
    EXPECT_EQ(j.mismatch->condition, Condition::kRule) << describe(j);
  }
}

// Would catch: an op that rounds otherwise on a slice, whose right rule and own kernel excuse it, though no
// row says that it may.
TEST(JudgeOp, AKernelRoundsOtherwiseOnASliceWhereARowSaysSo) {
  const Judgement j = of_a_kernel(nearly_negated<ScalarType::Float, 0>);
  ASSERT_FALSE(j.passed());
  EXPECT_NE(j.mismatch->text.find("nothing says that the op may round otherwise"), std::string::npos)
      << describe(j);
}

// Would catch: an element that is looked for in other elements of its tensor, or not at all.
TEST(JudgeOp, AnElementMayBeTheKernelsForItAlone) {
  std::vector<uint64_t> bits(64, 0x3f800000);
  bits[5] = 0x7fc00000;  // NaN, at which a vector body has another gate
  const Case c = cut(64, {"aten::hardtanh_backward", {Ref{0}, Ref{1}, -1.0, 2.0}, 1},
                     {{ScalarType::Float, {64}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}, floats(bits)});
  for (const bool wrong : {false, true}) {
    HandEngine e(c);
    const Held g = e.input(0), x = e.input(1);
    const Held y = e.op(
        "aten::hardtanh_backward", {g, x}, {-1.0, 2.0}, e.plain().values[2], "[S0]",
        [&](const Locals& in) { return at::hardtanh_backward(wrong ? in[0].mul(2) : in[0], in[1], -1, 2); });
    ASSERT_NE(y.locals[5].item<float>(), e.plain().values[2][5].item<float>());
    const Judgement j = e.judge({g, x, y});
    EXPECT_EQ(j.passed(), !wrong) << describe(j);
  }
}

// Would catch: integers that are near whatever they are; two loops that may differ by more than they round,
// or not by that.
TEST(JudgeOp, TwoLoopsAreNear) {
  const auto near = [](double a, double b, ScalarType dtype, double terms = 0) {
    const auto full = [dtype](double v) { return at::full({3}, v, at::kDouble).to(dtype); };
    return are_near(full(a), full(b), dtype, terms);
  };
  const double unit = 0x1p-23, least = 0x1p-149;
  EXPECT_TRUE(near(7, 7, ScalarType::Long));
  EXPECT_FALSE(near(7, 8, ScalarType::Long));
  EXPECT_TRUE(near(1, 1 + 4 * unit, ScalarType::Float));
  EXPECT_FALSE(near(1, 1 + 16 * unit, ScalarType::Float));
  EXPECT_TRUE(near(1, 1 + 16 * unit, ScalarType::Float, 16));
  EXPECT_FALSE(near(0, 4 * least, ScalarType::Float));
  EXPECT_TRUE(near(0, 4 * least, ScalarType::Float, 1));
  EXPECT_FALSE(near(0, 1e-10, ScalarType::Float, 1));
  EXPECT_TRUE(
      are_near(at::full({3}, 1, at::kBFloat16), at::full({3}, 1 + 0x1p-7, at::kBFloat16), at::kFloat));
}

}  // namespace
}  // namespace lockstep::oracle
