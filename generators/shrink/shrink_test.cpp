// SPDX-License-Identifier: Apache-2.0
// The shrinker: strictly downhill, deterministic, within its budget, and down to what the failure needs.
#include "generators/shrink/shrink.h"

#include <gtest/gtest.h>

#include "generators/cases/labels.h"
#include "generators/cases/programs.h"
#include "generators/program/trial.h"
#include "generators/space/placements.h"
#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::generators {
namespace {

using oracle::Case;

bool has_op(const Case& c, std::string_view op) {
  return std::any_of(c.program.calls.begin(), c.program.calls.end(),
                     [&](const auto& call) { return call.op == op; });
}
bool has_label(const Case& c, const std::string& label) {
  const auto list = labels(c);
  return std::find(list.begin(), list.end(), label) != list.end();
}

// Would catch: a candidate that does not run, is not smaller, or says something else than it was made of.
TEST(Shrink, candidates_are_smaller_and_run) {
  int64_t offered = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const auto c = generate("program", 31, i);
    for (const auto& candidate : candidates(c)) {
      ++offered;
      ASSERT_LT(complexity(candidate), complexity(c));
      ASSERT_NO_THROW(oracle::validate(candidate)) << oracle::describe(candidate);
      ASSERT_TRUE(trial(candidate.program)) << oracle::describe(candidate);
      ASSERT_EQ(candidate.suite, c.suite);
      ASSERT_EQ(candidate.integer_lane, c.integer_lane);
    }
  }
  EXPECT_GT(offered, 1000);
}

// Would catch: a smaller case that reads what nobody wrote, which differs from itself.
TEST(Shrink, what_is_empty_stays_written) {
  const auto c = oracle::parse_token(
      "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4]:ones@[S0];"
      "v0=aten::new_empty_strided(x0,[2,3],[3,1],none,none,none,none);v1=aten::zero_(v0);v2=aten::neg(v1)#"
      "cf39c051");
  const auto smaller = candidates(c);
  EXPECT_FALSE(smaller.empty());
  for (const auto& candidate : smaller)
    EXPECT_TRUE(!has_op(candidate, "aten::new_empty_strided") || has_op(candidate, "aten::zero_"))
        << oracle::describe(candidate);
}

// What a case must have for the pretended failure, and how small its minimum may be.
struct Failure {
  const char* what;
  std::function<bool(const Case&)> still_fails;
  size_t calls;
  int64_t ranks;
};

// Would catch: an edit that is missing (calls, ranks, placements or lists that stay), a shrinker that gives
// up early.
TEST(Shrink, reaches_what_the_failure_needs) {
  const std::vector<Failure> failures = {
      {"mul of a Partial",
       [](const Case& c) {
         bool any = false;
         for (const auto& call : c.program.calls)
           for (const auto ref : references(call))
             if (call.op == "aten::mul.Tensor" && ref.id < std::ssize(c.placements))
               for (const auto& p : c.placements[static_cast<size_t>(ref.id)].placements)
                 any |= is_partial(p, ReduceOp::kSum);
         return any;
       },
       1, 1},
      {"a nested shard", [](const Case& c) { return has_label(c, "nested-shard"); }, 1, 1},
      {"an empty shard and a view",
       [](const Case& c) { return has_label(c, "empty-shard") && has_label(c, "view"); }, 3, 2},
      {"backward", [](const Case& c) { return has_op(c, "lockstep::backward"); }, 2, 1},
      {"an optimizer", [](const Case& c) { return has_op(c, "aten::_fused_adamw_"); }, 5, 1},
  };
  for (const auto& failure : failures) {
    int64_t shrunk = 0;
    for (uint64_t i = 0; i < 12000 && shrunk < 3; ++i) {
      const auto c = generate("program", 32, i);
      if (!failure.still_fails(c) || c.program.calls.size() < 4) continue;
      ++shrunk;
      const auto result = shrink(c, failure.still_fails, 3000);
      EXPECT_TRUE(result.minimal) << failure.what;
      EXPECT_TRUE(failure.still_fails(result.smallest));
      EXPECT_LE(result.smallest.program.calls.size(), failure.calls)
          << failure.what << "\n"
          << oracle::describe(c) << oracle::describe(result.smallest);
      EXPECT_LE(result.smallest.mesh.size(), failure.ranks) << failure.what << "\n"
                                                            << oracle::describe(result.smallest);
    }
    EXPECT_EQ(shrunk, 3) << failure.what;
  }
}

// Whether a redistribution takes what `from` accepts to what `to` accepts.
bool moves(const Case& c, bool (*from)(const oracle::Target&), bool (*to)(const oracle::Target&)) {
  auto placed = c.placements;
  for (const auto& call : c.program.calls) {
    if (call.op != "lockstep::redistribute") return false;
    const auto& before = placed[static_cast<size_t>(references(call)[0].id)];
    const auto& after = std::get<oracle::Target>(call.args[1]);
    if (from(before) && to(after)) return true;
    placed.push_back(after);
  }
  return false;
}

// Would catch: a redistribution that stays only because it places the operand of the next.
TEST(Shrink, an_input_takes_the_placement_of_a_redistribution_that_goes) {
  const auto fails = [](const Case& c) { return moves(c, oracle::has_partial, has_ragged); };
  int64_t shrunk = 0;
  for (uint64_t i = 0; shrunk < 5; ++i) {
    const auto c = generate("redistribute", 35, i);
    if (c.program.calls.size() < 3 || c.integer_lane || !fails(c)) continue;
    ++shrunk;
    const auto smallest = shrink(c, fails, 3000).smallest;
    EXPECT_EQ(smallest.program.calls.size(), 1u) << oracle::describe(c) << oracle::describe(smallest);
  }
}

// Would catch: a call that stays only because its operand is placed as the failure says.
TEST(Shrink, a_call_goes_whose_operands_placement_counts) {
  const auto fails = [](const Case& c) {
    return has_op(c, "aten::exp") &&
           std::any_of(c.placements.begin(), c.placements.end(), oracle::has_partial);
  };
  const auto c = oracle::parse_token(
      "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[4]:normal(1)@[P];x1=f32[4]:normal(2)@[S0];v0=aten::neg(x0);"
      "v1=aten::exp(x1)#de95d1fb");
  const auto smallest = shrink(c, fails, 3000).smallest;
  EXPECT_EQ(smallest.program.calls.size(), 1u) << oracle::describe(smallest);
}

// Would catch: a call in place that stays only because what it writes was zeros.
TEST(Shrink, a_call_goes_that_makes_what_it_writes_other_than_zeros) {
  const auto fails = [](const Case& c) {
    oracle::SimulatedSource source;
    const auto values = oracle::evaluate(c, source);
    return has_op(c, "aten::neg") && at::count_nonzero(values.back()).item<int64_t>() > 0;
  };
  const auto c = oracle::parse_token(
      "v1:program;mesh=1;seed=0;dev=1x256;x0=f32[2]:zeros@[R];x1=f32[2]:ones@[R];v0=aten::add_.Tensor(x0,x1,"
      "1);"
      "v1=aten::neg(x0)#2cd35d46");
  EXPECT_EQ(shrink(c, fails, 3000).smallest.program.calls.size(), 1u);
}

// Would catch: a view that stays only because the gradient of its result has its shape. The value is in f64,
// and its gradient in f32, so that no input stands for it.
TEST(Shrink, a_view_goes_and_the_gradient_has_the_shape_of_what_it_viewed) {
  const auto fails = [](const Case& c) {
    return has_op(c, "lockstep::backward") && has_op(c, "aten::sum") &&
           c.program.inputs.at(0).dtype == at::kDouble;
  };
  const auto c = oracle::parse_token(
      "v1:program;mesh=1;seed=0;dev=1x256;x0=f64[2]:ones@[R]!;x1=f32[1]:ones@[R];v0=aten::sum(x0,none);"
      "v1=aten::_unsafe_view(v0,[1]);v2=lockstep::backward(t[v1],t[x1])#a070345b");
  const auto smallest = shrink(c, fails, 3000).smallest;
  EXPECT_EQ(smallest.program.calls.size(), 2u) << oracle::describe(smallest);
}

// Would catch: units that keep a mesh as large as it was, a RaggedShard told where a Shard fails alike.
TEST(Shrink, ragged_placements_become_simpler) {
  const auto any = [](const Case& c, bool (*is)(const Placement&)) {
    return !c.placements.empty() &&
           std::any_of(c.placements[0].placements.begin(), c.placements[0].placements.end(), is);
  };
  int64_t shrunk = 0;
  for (uint64_t i = 0; shrunk < 20; ++i) {
    const auto c = generate("layout", 34, i);
    if (!any(c, is_ragged) || c.mesh.size() < 4) continue;
    ++shrunk;
    const auto ragged = shrink(
                            c, [&](const Case& made) { return any(made, is_ragged); }, 3000)
                            .smallest;
    EXPECT_EQ(to_string(ragged.placements[0].placements), "[G0:1]") << oracle::describe(c);
    const auto empty = [&](const Case& made) {
      return has_label(made, "empty-shard") && any(made, is_ragged);
    };
    if (empty(c)) {
      const auto smallest = shrink(c, empty, 3000).smallest;
      EXPECT_LE(smallest.mesh.size(), 2) << oracle::describe(c) << oracle::describe(smallest);
    }
    const auto cut = shrink(
                         c, [&](const Case& made) { return any(made, distributes); }, 3000)
                         .smallest;
    EXPECT_TRUE(std::holds_alternative<Shard>(cut.placements[0].placements.at(0))) << oracle::describe(c);
  }
}

// Would catch: a call of the predicate beyond the budget, an improvement not told, an order that varies.
TEST(Shrink, keeps_its_budget_and_tells_each_improvement) {
  const auto still_fails = [](const Case& c) { return has_label(c, "uneven"); };
  uint64_t i = 0;
  while (!still_fails(generate("program", 33, i))) ++i;
  const auto start = generate("program", 33, i);
  for (const int64_t budget : {0, 1, 5, 40}) {
    int64_t asked = 0;
    std::vector<Case> told;
    const auto result = shrink(
        start, [&](const Case& c) { return ++asked, still_fails(c); }, budget, candidates,
        [&](const Case& c) { told.push_back(c); });
    EXPECT_LE(asked, budget);
    EXPECT_EQ(asked, result.tried);
    EXPECT_EQ(static_cast<int64_t>(told.size()), result.accepted);
    EXPECT_EQ(told.empty() ? start : told.back(), result.smallest);
    for (size_t t = 1; t < told.size(); ++t) EXPECT_LT(complexity(told[t]), complexity(told[t - 1]));
    EXPECT_EQ(shrink(start, still_fails, budget).smallest, result.smallest);
  }
}

}  // namespace
}  // namespace lockstep::generators
