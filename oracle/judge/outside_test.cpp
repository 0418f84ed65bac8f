// SPDX-License-Identifier: Apache-2.0
// Engines made by hand whose values leave the mesh: the host reads them, and plain tensors are computed of
// them.
#include <gtest/gtest.h>

#include "oracle/judge/testing.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

Input leaf(std::vector<int64_t> shape, uint64_t seed) {
  Input x = input(std::move(shape), seed);
  x.requires_grad = true;
  return x;
}

Case on_ranks(int64_t ranks, const char* placements, std::vector<Input> inputs, std::vector<Call> calls) {
  Case c;
  c.mesh = DeviceMesh({ranks});
  c.device = {1, 256};
  c.placements.assign(inputs.size(), Target{});  // the first is placed, the others are plain
  c.placements[0] = {parse_placements(placements), {}};
  c.program.inputs = std::move(inputs);
  c.program.calls = std::move(calls);
  validate(c);
  return c;
}

// v1 = full_tensor(x0) * x1, and the gradient of x0 from x2.
struct Gradient {
  HandEngine e{on_ranks(2, "[S0]", {leaf({4}, 1), input({4}, 2), input({4}, 3)},
                        {{std::string(kFullTensor), {Ref{0}}, 1},
                         {"aten::mul.Tensor", {Ref{3}, Ref{1}}, 1},
                         {std::string(kBackward), {std::vector<Ref>{Ref{4}}, std::vector<Ref>{Ref{2}}}, 1}})};
  const Held x = e.input(0);

  // @param spoil what the ranks hold of the gradient, on its way back.
  Judgement judge(const std::function<void(Held&)>& spoil) {
    e.read(std::string(kFullTensor), e.redistribute(x, "[R]"));
    Held g = e.place(e.plain().values[5], "[R]");
    spoil(g);
    const Held back = e.redistribute(g, "[S0]");
    return e.judge({x, all(1), all(2), all(3), all(4), back});
  }
  Held all(size_t value) const { return e.place(e.plain().values[value], "[R]"); }
};

// Would catch: a judge that asks the engine for ops on plain tensors, or takes no gradient of them.
TEST(Outside, PlainComputationIsStockAndItsGradientComesBack) {
  Gradient right;
  const auto j = right.judge([](Held&) {});
  EXPECT_TRUE(j.passed() && j.equal) << describe(j);
  EXPECT_EQ(j.ops, 0u);
}

// Would catch: a gradient of full_tensor that reaches the first rank only, and ranks that go on with others.
TEST(Outside, AGradientThatReachesTheFirstRankOnlyIsADifference) {
  Gradient wrong;
  const auto j = wrong.judge([](Held& g) { g.locals[1] = at::zeros_like(g.locals[1]); });
  ASSERT_FALSE(j.passed());
  EXPECT_EQ(j.mismatch->condition, Condition::kClosed) << describe(j);
}

// Would catch: a value of the host that nobody read, or that was read of another tensor.
TEST(Outside, WhatTheHostReadsIsTheValueOfThePlainRun) {
  const auto read = [](const char* op, const std::function<at::Tensor(const at::Tensor&)>& change) {
    HandEngine e(on_ranks(2, "[R]", {input({}, 1)}, {{std::string(kItem), {Ref{0}}, 1}}));
    if (op != nullptr) e.read(op, e.place(change(e.plain().values[0]), "[R]"));
    return e.judge({e.input(0), e.place(e.plain().values[1], "[R]")});
  };
  const auto same = [](const at::Tensor& t) { return t; };
  EXPECT_TRUE(read("aten::_local_scalar_dense", same).passed());
  EXPECT_EQ(read("aten::_local_scalar_dense", [](const at::Tensor& t) { return t + 1; }).mismatch->condition,
            Condition::kClosed);
  EXPECT_EQ(read("aten::equal", same).mismatch->condition, Condition::kSequence);
  EXPECT_EQ(read(nullptr, same).mismatch->condition, Condition::kSequence);
}

// A sum in another order than the plain run's, read by the host, and twice it, of the engine's own value.
Judgement in_another_order(bool of_own_value) {
  HandEngine e(on_ranks(
      3, "[P]", {input({64}, 1)},
      {{std::string(kFullTensor), {Ref{0}}, 1}, {"aten::add.Tensor", {Ref{1}, Ref{1}, int64_t{1}}, 1}}));
  const Held x = e.input(0);
  const at::Tensor own = (x.locals[2] + x.locals[1]) + x.locals[0];
  const Held whole = e.redistribute(x, "[R]", own, parse_reduction_order("over 0: sum:f32(fold 2 1 0)"));
  e.read(std::string(kFullTensor), whole);
  const at::Tensor twice = of_own_value ? own + own : e.plain().values[2];
  return e.judge({x, whole, e.place(twice, "[R]")});
}

// Would catch: a plain computation that is compared with the plain run's although what it reads is explained.
TEST(Outside, PlainComputationGoesOnWithTheEnginesOwnValue) {
  const auto j = in_another_order(true);
  EXPECT_TRUE(j.passed() && !j.equal) << describe(j);
  const auto other = in_another_order(false);
  ASSERT_FALSE(other.passed());
  EXPECT_EQ(other.mismatch->condition, Condition::kFinal) << describe(other);
}

}  // namespace
}  // namespace lockstep::oracle
