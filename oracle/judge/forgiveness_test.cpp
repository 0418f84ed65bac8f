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

// v3 = sums of x0's columns, v4 = these as whole numbers, v5 = the row x1 by the one of two experts, x2, that
// has a row. The sums are 0 and 1 row by row; where each of two ranks adds its own rows first, they are 1 and
// 0.
constexpr uint64_t kOne = 0x3f800000, kLarge = 0x4cbebc20, kNegative = 0xccbebc20;
Case of_an_expert() {
  const None no;
  const std::vector<uint64_t> rows = {kOne, kLarge, 0, 0, kLarge, kNegative, kNegative, kOne};
  return make_case({{c10::ScalarType::Float, {4, 2}, {}, {ValueKind::kBits, 0, 0, 0, rows}, false},
                    input({1, 3}, 1),
                    input({2, 2, 3}, 2)},
                   {"[S0]", "[R]", "[R]"},
                   {{"aten::sum.dim_IntList", {Ref{0}, Shape{0}, false, no}, 1},
                    {"aten::_to_copy", {Ref{3}, c10::ScalarType::Long, no, no, no, false, no}, 1},
                    {"experts::grouped_linear", {Ref{1}, Ref{2}, Shape{0, 1}, int64_t{1}}, 1}},
                   {2});
}

// What an engine does that reads the counts, or does not, says that they are `said`, and multiplies by
// `used`.
Judgement of_a_reader(bool reads, Shape said, int64_t used) {
  HandEngine e(of_an_expert());
  const auto& values = e.plain().values;
  EXPECT_TRUE(at::equal(values[4], at::tensor(Shape{0, 1}))) << values[4];
  const Held x = e.input(0), row = e.input(1), weight = e.input(2);
  const Held pends = e.op("aten::sum.dim_IntList", {x}, {Shape{0}, false, {}}, values[3], "[P]",
                          [](auto& in) { return at::sum(in[0], 0); });
  const Held sums = e.redistribute(pends, "[R]");
  const Held counts = e.op("aten::_to_copy", {sums}, {at::kLong, {}, {}, {}, false, {}}, values[4], "[R]",
                           [](auto& in) { return in[0].to(at::kLong); });
  EXPECT_TRUE(at::equal(counts.locals[0], at::tensor(Shape{1, 0}))) << counts.locals[0];
  if (reads) e.read("lockstep::full_tensor", counts);
  const Held product = e.op("experts::grouped_linear", {row, weight}, {said, int64_t{1}}, values[5], "[R]",
                            [&](auto& in) { return at::linear(in[0], in[1][used]); });
  return e.judge({x, row, weight, pends, counts, product});
}

// Catches: counts that the host has read of a value which another order of reductions decided otherwise,
// called another sequence of ops; any other list forgiven with them, or one that nobody has read; a product
// by other experts than its counts say.
TEST(Forgiveness, CountsMayBeWhatTheHostHasReadOfItsOwnValue) {
  const Judgement read = of_a_reader(true, {1, 0}, 0);
  EXPECT_TRUE(read.passed() && !read.equal) << describe(read);
  EXPECT_EQ(read.forgiven.at({Forgiven::kRead, "experts::grouped_linear"}), 1);
  expect_fault(of_a_reader(true, {1, 0}, 1), Condition::kOp, 4, "result 0");
  expect_fault(of_a_reader(false, {1, 0}, 0), Condition::kSequence, 3, "argument 2 (counts) is [1, 0]");
  expect_fault(of_a_reader(true, {2, -1}, 0), Condition::kSequence, 4, "argument 2 (counts)");
}

}  // namespace
}  // namespace lockstep::oracle
