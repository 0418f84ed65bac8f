// SPDX-License-Identifier: Apache-2.0
// Single threads of a simulated launch write what the whole launch does.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

constexpr RandomState kState{77, 8};
constexpr DeviceModel kSmall{1, 512};

// All threads that any launch here has.
std::vector<int64_t> all_threads() {
  std::vector<int64_t> threads(4096);
  std::iota(threads.begin(), threads.end(), 0);
  return threads;
}

// Catches: a thread that is left out or runs twice, values out of order with their places, another advance;
// for every kernel that there is.
TEST(RandomThreads, TogetherTheyWriteTheWholeTensor) {
  for (const auto kind : {RandomKind::kUniform, RandomKind::kNormal, RandomKind::kExponential,
                          RandomKind::kBernoulli, RandomKind::kBernoulliUniform, RandomKind::kDropoutMask,
                          RandomKind::kRreluNoise, RandomKind::kRandomBits, RandomKind::kMultinomialUniform})
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const int64_t columns : {1, 37, 64}) {
        const bool only_float = kind == RandomKind::kMultinomialUniform;
        if (only_float && dtype != at::kFloat) continue;
        if (kind == RandomKind::kBernoulliUniform && dtype == at::kBFloat16) continue;  // stock has none
        auto call = call_of(kind, dtype, {61, columns}, 0.25, 0.5);
        SCOPED_TRACE(concat(static_cast<int>(kind), " ", dtype_name(dtype), " ", columns));
        const auto threads = only_float ? [] {
          std::vector<int64_t> many(61 * 128);
          std::iota(many.begin(), many.end(), 0);
          return many;
        }() : all_threads();
        const auto writes = simulate_threads(call, kSmall, kState, threads);
        auto put_together = at::zeros_like(room_for(call));
        ASSERT_EQ(static_cast<int64_t>(writes.places.size()), put_together.numel());
        put_together.view(-1).index_put_({at::tensor(writes.places)}, writes.values);
        EXPECT_TRUE(compare(draw(call, kState, kSmall), put_together).equal());
        RandomState after = kState;
        SimulatedSource().fill(call, room_for(call), kSmall, after);
        EXPECT_EQ(writes.advance, after.offset - kState.offset);
      }
}

// Catches: threads beyond the launch that write, and a tensor without elements that does.
TEST(RandomThreads, OnlyThoseOfTheLaunchWrite) {
  EXPECT_TRUE(simulate_threads(call_of(RandomKind::kUniform, at::kFloat, {100}), kSmall, kState, {256, 9999})
                  .places.empty());
  const auto none = simulate_threads(call_of(RandomKind::kUniform, at::kFloat, {0}), kSmall, kState, {0});
  EXPECT_TRUE(none.places.empty());
  EXPECT_EQ(none.advance, 0u);
  auto permutation = call_of(RandomKind::kRandperm, at::kLong, {100});
  EXPECT_THROW(simulate_threads(permutation, kSmall, kState, {0}), Error);
}

}  // namespace
}  // namespace lockstep::oracle
