// SPDX-License-Identifier: Apache-2.0
// Means as sums that are divided once, by an engine made by hand: what is such a mean passes, and nothing
// else.
#include <gtest/gtest.h>

#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Locals = std::vector<at::Tensor>;

Case mean_of_rows(ValueKind kind, ScalarType dtype) {
  Case c;
  c.mesh = DeviceMesh({3});
  c.device = {1, 256};
  c.program.inputs = {{dtype, {7, 2}, {}, {kind, 1, -9, 9, {}}, false}};
  c.program.calls = {{"aten::mean.dim", {Ref{0}, std::vector<int64_t>{0}, false, None{}}, 1}};
  c.placements = {{parse_placements("[S0]"), {}}};
  return c;
}

// Each rank's rows summed in float32, the sums added, the total divided by `count`, and cast.
Judgement judge(ValueKind kind, ScalarType dtype, const at::Scalar& count, double factor = 1) {
  HandEngine e(mean_of_rows(kind, dtype));
  const auto like = e.plain().values[1].to(at::kFloat);
  const Held x = e.input(0);
  const Held terms =
      e.op("aten::sum.dim_IntList", {x}, {std::vector<int64_t>{0}, false, at::kFloat}, like, "[P]",
           [&](const Locals& in) { return at::sum(in[0], {0}, false, at::kFloat).mul(factor); });
  const Held total = e.redistribute(terms, "[R]");
  Held mean = e.op("aten::div.Scalar", {total}, {count}, like, "[R]",
                   [&](const Locals& in) { return at::div(in[0], count); });
  if (dtype != at::kFloat)
    mean = e.op("aten::_to_copy", {mean}, {dtype, {}, {}, {}, false, {}}, e.plain().values[1], "[R]",
                [&](const Locals& in) { return in[0].to(dtype); });
  return e.judge({x, mean});
}

// Would catch: a mean of integers that is not exact, a short dtype that is divided in itself.
TEST(Mean, OfASumDividedOnce) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Judgement integers = judge(ValueKind::kIntegers, dtype, 7);
    EXPECT_TRUE(integers.equal && integers.explained.empty()) << describe(integers);
    EXPECT_EQ((integers.forgiven.at({Forgiven::kMean, "aten::mean.dim"})), 1);
    EXPECT_TRUE(judge(ValueKind::kNormal, dtype, 7).passed());
  }
}

// Would catch: any sum and any quotient that passes for a mean.
TEST(Mean, OfAnythingElseIsADifference) {
  for (const auto kind : {ValueKind::kIntegers, ValueKind::kNormal}) {
    EXPECT_EQ(judge(kind, at::kFloat, 3).mismatch->op, "aten::div.Scalar");
    EXPECT_EQ(judge(kind, at::kFloat, 7.0).mismatch->op, "aten::div.Scalar");
    EXPECT_EQ(judge(kind, at::kFloat, 7, 2).mismatch->op, "aten::sum.dim_IntList");
  }
}

}  // namespace
}  // namespace lockstep::oracle
