// SPDX-License-Identifier: Apache-2.0
// What the plain run does with memory of its own, beside an engine that sees nothing of it.
#include "oracle/judge/forgiveness.h"

#include <gtest/gtest.h>

#include "engine/values/text.h"
#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

using Shape = std::vector<int64_t>;

// v0 = memory of one number, v1 = 2 in it; v2 = memory like x0, v3 = 1 in it, v4 = v3 - x0.
Case two_fills(const Shape& shape) {
  const None no;
  Case c;
  c.mesh = DeviceMesh({2});
  c.program.inputs = {{c10::ScalarType::Float, shape, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false}};
  c.placements = {{parse_placements("[R]"), {}}};
  c.program.calls = {{"aten::empty.memory_format", {Shape{}, no, no, no, no, no}, 1},
                     {"aten::fill_.Scalar", {Ref{1}, 2.0}, 1},
                     {"aten::empty_like", {Ref{0}, no, no, no, no, no}, 1},
                     {"aten::fill_.Scalar", {Ref{3}, 1.0}, 1},
                     {"aten::sub.Tensor", {Ref{4}, Ref{0}, 1.0}, 1}};
  return c;
}

// As the second derivative of logit has it. Catches: the fill of memory that no engine sees, looked
// for in the engine's next fill, of another number; memory without values that is taken for that of another
// shape.
TEST(Forgiveness, AFillOfAFactorysMemoryIsNotTheEnginesNextFill) {
  for (const Shape& shape : {Shape{}, Shape{1}}) {
    HandEngine e(two_fills(shape));
    const auto& values = e.plain().values;
    const Held x = e.input(0), two = e.place(values[2], "[R]");
    Held ones = e.op("aten::empty_like", {x}, std::vector<c10::IValue>(5), values[3], "[R]",
                     [](auto& in) { return at::zeros_like(in[0]); });
    e.in_place("aten::fill_.Scalar", {ones}, {1.0}, [](auto& in) { in[0].fill_(1.0); });
    const Held y = e.op("aten::sub.Tensor", {ones, x}, {1.0}, values[5], "[R]",
                        [](auto& in) { return at::sub(in[0], in[1]); });
    const Judgement j = e.judge({x, two, two, ones, ones, y});
    EXPECT_TRUE(j.passed() && j.equal) << describe(j);
    EXPECT_EQ(j.forgiven.at({Forgiven::kFactory, "aten::empty.memory_format"}), 1);
  }
}

// Catches: a mean in 16 bits of a device, whose kernel rounds what it reads, taken for a difference; such a
// cast that stands for a mean on the CPU, where no engine begins so.
TEST(Forgiveness, OnADeviceAMeanMayBeginWithTheCast) {
  RecordedOp mean;
  mean.op = &find_operator("aten::mean");
  TimelineEntry entry;
  entry.inputs.emplace_back();
  for (const auto device : {c10::kCPU, c10::kCUDA}) {
    mean.device = device;
    for (const auto& [op, on_cpu] :
         std::vector<std::pair<std::string, bool>>{{"aten::sum", true}, {"aten::_to_copy", false}}) {
      entry.op = op;
      EXPECT_EQ(composed(mean, entry) == Forgiven::kMean, on_cpu || device == c10::kCUDA) << op << device;
    }
  }
}

}  // namespace
}  // namespace lockstep::oracle
