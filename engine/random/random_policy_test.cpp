// SPDX-License-Identifier: Apache-2.0
// The baselines are what they claim to be, and the product's policy is none of them.
#include "engine/random/random_policy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/layout/layout.h"
#include "engine/random/random.h"
#include "engine/values/error.h"
#include "kernels/philox_values.h"

namespace lockstep {
namespace {

const DeviceModel kTiny{1, 256};
const RandomState kState{17, 20};

RandomCall uniform(std::vector<int64_t> shape) {
  RandomCall call;
  call.stride = contiguous_strides(shape);
  call.shape = std::move(shape);
  return call;
}
Spec spec_of(const char* mesh, const char* placements, std::vector<int64_t> shape) {
  return Spec(parse_mesh(mesh), parse_placements(placements), std::move(shape), c10::kFloat);
}
at::Tensor stock(std::vector<int64_t> shape, RandomState state) {
  const RandomCall call = uniform(std::move(shape));
  return draw_local(call, owned_whole(call.shape), call.stride, state, kTiny);
}

// Catches: a default policy that is a baseline; a Partial or Replicate rank that draws only a part.
TEST(RandomPolicy, SingleDeviceDrawsSlices) {
  const at::Tensor all = stock({30, 8}, kState);
  const Spec rows = spec_of("3", "[S0]", {30, 8});
  for (int64_t r = 0; r < 3; ++r)
    EXPECT_TRUE(at::equal(draw_local(uniform({30, 8}), rows, r, kState, kTiny), all.narrow(0, 10 * r, 10)));
  const Spec pending = spec_of("2x2", "[P,S1]", {30, 8});
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_TRUE(
        at::equal(draw_local(uniform({30, 8}), pending, r, kState, kTiny), all.narrow(1, 4 * (r % 2), 4)));
  EXPECT_EQ(advance(uniform({300, 8}), spec_of("3", "[S0]", {300, 8}), kTiny), 12u);
}

// Catches: the global launch used for a local kernel, replicas that differ, the seed of a replicated tensor
// changed.
TEST(RandomPolicy, PerRankSeeds) {
  constexpr auto kPolicy = RandomPolicy::kPerRankSeeds;
  const Spec spec = spec_of("2x3", "[R,S0]", {30, 100});
  for (int64_t position = 0; position < 6; ++position) {
    const uint64_t index = static_cast<uint64_t>(position % 3);
    EXPECT_TRUE(at::equal(draw_local(uniform({30, 100}), spec, position, kState, kTiny, kPolicy),
                          stock({10, 100}, {kState.seed + 2718 + index, kState.offset})));
  }
  EXPECT_EQ(advance(uniform({30, 100}), spec, kTiny, kPolicy), 4u);  // 1000 elements; globally 12
  const Spec whole = spec_of("2", "[R]", {30, 100});
  EXPECT_TRUE(
      at::equal(draw_local(uniform({30, 100}), whole, 1, kState, kTiny, kPolicy), stock({30, 100}, kState)));
}

// Catches: an index in another order of mesh or tensor dimensions, rounding left out, the offset moved by
// words.
TEST(RandomPolicy, OffsetBased) {
  constexpr auto kPolicy = RandomPolicy::kOffsetBased;
  const Spec spec = spec_of("2x2", "[S1,S0]", {6, 7});  // locals: 3x4, then 3x3
  const RandomCall call = uniform({6, 7});
  const uint64_t index[] = {0, 2, 1, 3};  // row-major over tensor dimensions
  for (int64_t position = 0; position < 4; ++position)
    EXPECT_TRUE(
        at::equal(draw_local(call, spec, position, kState, kTiny, kPolicy),
                  stock(local_shape(spec, position), {kState.seed, kState.offset + 12 * index[position]})));
  EXPECT_EQ(advance(call, spec, kTiny, kPolicy), 44u);
  const Spec odd = spec_of("2", "[S0]", {5});  // 3 elements on rank 0: rank 1 begins at 4
  EXPECT_TRUE(at::equal(draw_local(uniform({5}), odd, 1, kState, kTiny, kPolicy), stock({2}, {17, 24})));
}

// Element j is lane j % lanes of block j / lanes of the call's subsequence, on every device. Catches: the
// offset counted in words, an advance by size, a shard that counts from its own first element, a plain tensor
// that draws otherwise.
TEST(RandomPolicy, IndexedNumbersFollowTheGlobalIndex) {
  constexpr auto kPolicy = RandomPolicy::kIndexed;
  const Spec columns = spec_of("2", "[S1]", {30, 8});
  const at::Tensor right = draw_local(uniform({30, 8}), columns, 1, kState, DeviceModel{}, kPolicy);
  for (int64_t row = 0; row < 30; ++row)
    for (int64_t column = 0; column < 4; ++column) {
      const auto j = static_cast<uint64_t>(row * 8 + column + 4);
      EXPECT_EQ(right[row][column].item<float>(), uniform32(philox(17, 20 / 4, j / 4)[j % 4]));
    }
  RandomCall wide = uniform({6});
  wide.dtype = c10::kDouble;
  at::Tensor plain = at::empty({6}, at::kDouble);
  RandomState state = kState;
  IndexedSource().fill(wide, plain, kTiny, state);
  EXPECT_EQ(state, (RandomState{17, 24}));
  const PhiloxBlock block = philox(17, 5, 2);
  EXPECT_EQ(plain[5].item<double>(), uniform64(block[2], block[3]));
  EXPECT_EQ(advance(uniform({3000, 8}), columns, kTiny, kPolicy), 4u);
}

// Catches: a scope that leaks, or policies that no text names.
TEST(RandomPolicy, ScopesNestAndTextsRoundTrip) {
  EXPECT_EQ(random_policy(), RandomPolicy::kSingleDevice);
  {
    const RandomPolicyScope outer(RandomPolicy::kOffsetBased);
    { const RandomPolicyScope inner(RandomPolicy::kPerRankSeeds); }
    EXPECT_EQ(random_policy(), RandomPolicy::kOffsetBased);
  }
  EXPECT_EQ(random_policy(), RandomPolicy::kSingleDevice);
  for (auto policy : {RandomPolicy::kSingleDevice, RandomPolicy::kPerRankSeeds, RandomPolicy::kOffsetBased,
                      RandomPolicy::kIndexed})
    EXPECT_EQ(parse_random_policy(name(policy)), policy);
  EXPECT_THROW(parse_random_policy("thread-based"), Error);
}

}  // namespace
}  // namespace lockstep
