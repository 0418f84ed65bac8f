// SPDX-License-Identifier: Apache-2.0
// A step's bytes counted by hand. That real steps have them: suites/fsdp/step_plan_test.cpp.
#include "engine/fsdp/step_plan.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

// 60 elements on two ranks: shards of 32, since tensors start, and shards are, at multiples of 64 bytes. The
// first has 32 of them, the second 28.
const StepGroup kSixty{{{60, 1}}};

void expect_moved(const Moved& moved, int64_t calls, int64_t bytes, const std::vector<int64_t>& sent) {
  EXPECT_EQ(moved.calls, calls);
  EXPECT_EQ(moved.bytes, bytes);
  EXPECT_EQ(moved.sent, sent);
}

void expect_held(const Held& held, Held expected) {
  EXPECT_EQ(held.shards, expected.shards);
  EXPECT_EQ(held.gathered, expected.gathered);
  EXPECT_EQ(held.gradients, expected.gradients);
  EXPECT_EQ(held.reduced, expected.reduced);
}

// Catches: padding that a reduction sends, or that a gather does not; a rank that sends to itself; the
// largest sender taken for the smallest.
TEST(StepPlan, OfOneModule) {
  const auto step = plan_step({kSixty}, {.shards = 2});
  EXPECT_EQ(step.groups[0].plan.shard_size, 32);
  expect_moved(step.moves.gather_forward, 1, 2 * 32 * 4, {32 * 4, 32 * 4});
  expect_moved(step.moves.gather_backward, 1, 2 * 32 * 4, {32 * 4, 32 * 4});
  expect_moved(step.moves.reduce_scatter, 1, 60 * 4, {28 * 4, 32 * 4});
  expect_moved(step.moves.all_reduce, 0, 0, {});
  // At the end of the reduction: the module is cut after it.
  expect_held(step.peak, {32 * 4, 64 * 4, 60 * 4, 32 * 4});
}

// Catches: a gather in the dtype of the shards, terms in that of the parameters, gradients that are handed
// over in it; a second gather of what was not cut.
TEST(StepPlan, InMixedPrecision) {
  const auto step =
      plan_step({kSixty}, {.shards = 2,
                           .policy = {.param_dtype = c10::kBFloat16, .reduce_dtype = c10::kDouble},
                           .reshard_after_forward = false});
  EXPECT_EQ(step.groups[0].plan.shard_size, 32);
  expect_moved(step.moves.gather_forward, 1, 2 * 32 * 2, {32 * 2, 32 * 2});
  expect_moved(step.moves.gather_backward, 0, 0, {});
  expect_moved(step.moves.reduce_scatter, 1, 60 * 8, {28 * 8, 32 * 8});
  expect_held(step.peak, {32 * 4, 64 * 2, 60 * 8, 32 * 8});
}

// Catches: replicas that are forgotten in the sum, or that send to themselves.
TEST(StepPlan, OfReplicas) {
  const auto step = plan_step({kSixty}, {.shards = 2, .replicas = 3});
  expect_moved(step.moves.gather_forward, 1, 3 * 2 * 32 * 4, {32 * 4, 32 * 4});
  expect_moved(step.moves.reduce_scatter, 1, 3 * 60 * 4, {28 * 4, 32 * 4});
  expect_moved(step.moves.all_reduce, 1, 3 * 2 * 60 * 4, {2 * 32 * 4, 2 * 28 * 4});
  expect_held(step.peak, {32 * 4, 64 * 4, 60 * 4, 32 * 4});
}

// Three modules within one that has nothing of its own, on one rank. Catches: a module that stays gathered,
// one that is prefetched twice or too late, gradients of more than the module at work and the one before; of
// modules that are alike only one counted.
TEST(StepPlan, OfModulesOneAfterTheOther) {
  constexpr int64_t kOne = 64 * 4;
  const std::vector<StepGroup> groups{{}, {{{64, 1}}, 3}};
  const auto peak = [&](bool reshards, int64_t prefetch) {
    return plan_step(groups, {.reshard_after_forward = reshards, .prefetch = prefetch}).peak;
  };
  // The second at work, the first gathered already: untold, too, on the way back.
  expect_held(peak(true, 0), {3 * kOne, 2 * kOne, 2 * kOne, kOne});
  expect_held(peak(true, 1), {3 * kOne, 2 * kOne, 2 * kOne, kOne});
  expect_held(peak(false, 0), {3 * kOne, 2 * kOne, 2 * kOne, kOne});
  EXPECT_EQ(plan_step(groups, {.shards = 2}).moves.gather_forward.calls, 3);
  EXPECT_EQ(plan_step(groups, {.shards = 2}).moves.gather_forward.bytes, 3 * kOne);
}

// Catches: gradients of what follows the modules within that are forgotten while these run.
TEST(StepPlan, GradientsOfTheOutermostWait) {
  constexpr int64_t kOne = 64 * 4;
  for (int64_t before = 0; before <= 2; ++before) {
    const StepGroup outer{{{64, 1}, {64, 1}}, 1, before}, inner{{{4096, 1}}, 2};
    // The first of the inner ones at work, the second reduced to the end.
    expect_held(plan_step({outer, inner}, {}).peak,
                {130 * kOne, 66 * kOne, (130 - before) * kOne, 64 * kOne});
  }
}

// Catches: a bad number that is taken, or refused without its name.
TEST(StepPlan, RefusesByName) {
  const auto expect = [](const std::vector<StepGroup>& groups, const StepOptions& options, const char* text) {
    try {
      plan_step(groups, options);
      ADD_FAILURE() << "nothing says: " << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect({}, {}, "the first group is the outermost module");
  expect({{{{1, 1}}, 2}}, {}, "the first group is the outermost module");
  expect({kSixty}, {.shards = 0}, "1 times 0 ranks");
  expect({kSixty}, {.shards = 1 << 16, .replicas = 2}, "2 times 65536 ranks");
  expect({kSixty}, {.prefetch = -1}, "-1 modules are prefetched");
  expect({kSixty, {{}, 0}}, {}, "0 modules of one group");
  expect({kSixty}, {.policy = {.reduce_dtype = c10::kInt}}, "name a floating dtype");
  expect({{}, {{{int64_t{1} << 38, int64_t{1} << 38}}, 1 << 15}}, {.shards = 1 << 8}, "more than an integer");
  expect({{{{int64_t{1} << 38, 1}}}}, {.replicas = 1 << 16}, "more than an integer");
}

}  // namespace
}  // namespace lockstep::fsdp
