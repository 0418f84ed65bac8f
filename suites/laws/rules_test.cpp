// SPDX-License-Identifier: Apache-2.0
// Rows and kernels that are wrong in the ways that a tolerance forgives, and true ones beside them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"
#include "suites/laws/row_check.h"

namespace lockstep::suites {
namespace {

using oracle::Arg;
using oracle::Case;
using oracle::ValueKind;

// One call whose first arguments are inputs of this shape; in the integer lane if they are integers.
Case one_call(const std::string& op, const std::vector<int64_t>& shape, ValueKind kind,
              const std::vector<Arg>& constants, int64_t ranks = 2, size_t inputs = 1) {
  Case c;
  c.suite = "rules";
  c.mesh = DeviceMesh({ranks});
  c.integer_lane = kind == ValueKind::kIntegers;
  oracle::Call call{.op = op, .args = {}};
  for (size_t i = 0; i < inputs; ++i) {
    c.program.inputs.push_back({.shape = shape, .values = {kind, i + 3, -3, 3, {}}});
    c.placements.push_back({{Replicate{}}, {}});
    call.args.emplace_back(oracle::Ref{static_cast<int64_t>(i)});
  }
  call.args.insert(call.args.end(), constants.begin(), constants.end());
  c.program.calls.push_back(call);
  return c;
}
const std::vector<Arg> kOverRows = {std::vector<int64_t>{0}, false, oracle::None{}};

Case sum(ValueKind kind = ValueKind::kIntegers) {
  return one_call("aten::sum.dim_IntList", {6, 4}, kind, kOverRows);
}
Case mean(int64_t ranks) {
  return one_call("aten::mean.dim", {8, 4}, ValueKind::kIntegers, kOverRows, ranks);
}
Case amax() {
  return one_call("aten::amax", {6, 4}, ValueKind::kIntegers, {std::vector<int64_t>{0}, false});
}
Case softmax() {
  return one_call("aten::_softmax", {6, 4}, ValueKind::kNormal, {int64_t{1}, false});
}
Case product() {
  return one_call("aten::mul.Tensor", {6, 4}, ValueKind::kIntegers, {}, 2, 2);
}
Case unary(const char* op, ValueKind kind) {
  return one_call(op, {5, 4}, kind, {});
}

// With another way to run on a rank, if one is given.
bool holds(const Case& c, const Row& row, LocalRun run = nullptr) {
  const auto& op = c.program.calls[0].op;
  LockstepEngine engine;
  auto sample = call_in(c, op, engine);
  auto entry = *sample.entry;
  if (run != nullptr) entry.run = run;
  sample.entry = &entry;
  return RowCheck(c, sample).holds(row);
}

constexpr auto kRows = Shard{0}, kColumns = Shard{1};
constexpr Partial kSum{}, kAverage{ReduceOp::kAvg}, kMaximum{ReduceOp::kMax};

// Catches: a true row that is called wrong, exact or explained by the order of its terms.
TEST(Rules, TrueRowsHold) {
  EXPECT_TRUE(holds(sum(), {{kSum}, {kRows}}));
  EXPECT_TRUE(holds(sum(), {{kRows}, {kColumns}}));
  EXPECT_TRUE(holds(sum(), {{kSum}, {kSum}}));
  EXPECT_TRUE(holds(sum(ValueKind::kNormal), {{kSum}, {kRows}}));
  EXPECT_TRUE(holds(sum(ValueKind::kNormal), {{kSum}, {kSum}}));
  EXPECT_TRUE(holds(mean(2), {{kAverage}, {kRows}}));
  EXPECT_TRUE(holds(amax(), {{kMaximum}, {kRows}}));
  EXPECT_TRUE(holds(product(), {{kRows}, {kRows, kRows}}));
  EXPECT_TRUE(holds(softmax(), {{kRows}, {kRows}}));
  EXPECT_TRUE(holds(unary("aten::log", ValueKind::kNormal), {{kRows}, {kRows}}));
}

// Catches: a row that is called true though its answer is another one.
TEST(Rules, WrongRowsDoNot) {
  EXPECT_FALSE(holds(sum(), {{kAverage}, {kRows}})) << "a sum is called an average";
  EXPECT_FALSE(holds(sum(), {{Replicate{}}, {kRows}})) << "a sum is called whole";
  EXPECT_FALSE(holds(sum(ValueKind::kNormal), {{kAverage}, {kRows}})) << "the same of numbers that round";
  EXPECT_FALSE(holds(mean(2), {{kSum}, {kRows}})) << "the divisor is local";
  EXPECT_FALSE(holds(mean(3), {{kAverage}, {kRows}})) << "means of unequal shards are averaged";
  EXPECT_FALSE(holds(amax(), {{kSum}, {kRows}})) << "maxima are added";
  EXPECT_FALSE(holds(product(), {{kSum}, {kSum, kSum}})) << "the product of two Partials";
  EXPECT_FALSE(holds(unary("aten::relu", ValueKind::kIntegers), {{kSum}, {kSum}})) << "relu of terms";
  EXPECT_FALSE(holds(softmax(), {{kColumns}, {kColumns}})) << "softmax of pieces of a row";
}

void slightly_off(const LocalCall& c, torch::jit::Stack& stack) {
  local::reduction(c, stack);
  stack[0] = at::mul(stack[0].toTensor(), 1.0000005);
}
void slightly_off_alone(const LocalCall& c, torch::jit::Stack& stack) {
  local::stock(c, stack);
  stack[0] = at::mul(stack[0].toTensor(), 1.0000005);
}
void another_nan(const LocalCall& c, torch::jit::Stack& stack) {
  local::stock(c, stack);
  const auto t = stack[0].toTensor();
  stack[0] = at::where(at::isnan(t), at::neg(t), t);
}
void another_zero(const LocalCall& c, torch::jit::Stack& stack) {
  local::stock(c, stack);
  const auto t = stack[0].toTensor();
  stack[0] = at::where(at::eq(t, 0), at::neg(at::abs(t)), t);
}

// Catches: a relative error of a few units in the last place, another NaN, another zero.
TEST(Rules, AlmostIsNotTrue) {
  const Row sharded{{kRows}, {kRows}}, reduced{{kSum}, {kRows}};
  EXPECT_FALSE(holds(sum(), reduced, slightly_off));
  EXPECT_FALSE(holds(sum(ValueKind::kNormal), reduced, slightly_off));
  EXPECT_FALSE(holds(softmax(), sharded, slightly_off_alone));
  for (const auto* op : {"aten::exp", "aten::sqrt"})
    EXPECT_FALSE(holds(unary(op, ValueKind::kNormal), sharded, slightly_off_alone)) << op;
  EXPECT_FALSE(holds(unary("aten::log", ValueKind::kNormal), sharded, another_nan));
  EXPECT_FALSE(holds(unary("aten::relu", ValueKind::kNormal), sharded, another_zero));
  EXPECT_FALSE(holds(unary("aten::relu", ValueKind::kIntegers), sharded, another_zero));
}

// Catches: a suite that does not tell what its check found, or generates what hides it.
TEST(Rules, TheSuiteNamesAWrongRow) {
  LockstepEngine engine;
  EXPECT_TRUE(std::holds_alternative<Passed>(judge_rules(sum(), engine)));
  register_sharding("aten::sum", [](const OpCall&) { return Rows{{{kAverage}, {kRows}}}; });
  const auto outcome = judge_rules(sum(), engine);
  unregister_sharding("aten::sum");
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome));
  EXPECT_NE(std::get<Failed>(outcome).explanation.find("the row [S0] -> [Pavg] of aten::sum is not true"),
            std::string::npos);
}

// Catches: a user's bypass that is wrong and is found by nobody; one that is right and is taken for wrong.
TEST(Rules, TheSuiteNamesAWrongBypass) {
  LockstepEngine engine;
  const auto of_relu = [&](bool (*inputs)(const BypassCall&)) {
    register_bypass({"aten::relu", Variant::kFunctional, inputs, [](auto& call) { return call.tensors[0]; }});
    const auto outcome = judge_rules(unary("aten::relu", ValueKind::kIntegers), engine);
    unregister_bypasses("aten::relu");
    return outcome;
  };
  const auto right = of_relu([](auto& call) { return !call.tensors[0]->has_partial(); });
  EXPECT_TRUE(std::holds_alternative<Passed>(right)) << explanation_of(right);
  const auto wrong = of_relu([](auto& call) { return call.tensors[0]->has_partial(); });
  ASSERT_TRUE(std::holds_alternative<Failed>(wrong));
  EXPECT_EQ(std::get<Failed>(wrong).verdict, "bypass");
  EXPECT_NE(std::get<Failed>(wrong).explanation.find("otherwise than by its rule"), std::string::npos);
}

// Catches: exact ops that are drawn outside of the lane in which they are judged exactly.
TEST(Rules, ExactOpsAreDrawnInTheIntegerLane) {
  int64_t exact = 0;
  for (int64_t i = 0; i < 100; ++i) exact += rules_case(1, i).integer_lane ? 1 : 0;
  EXPECT_GT(exact, 15);
}

}  // namespace
}  // namespace lockstep::suites
