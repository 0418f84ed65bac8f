// SPDX-License-Identifier: Apache-2.0
// Samples of tensors too large to hold find what is wrong with them.
#include "suites/laws/sampled_draw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/random/random.h"
#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

RandomCall uniform(std::vector<int64_t> shape) {
  RandomCall call;
  call.kind = RandomKind::kUniform;
  call.dtype = at::kFloat;
  call.a = 0;
  call.b = 1;
  call.stride = contiguous_strides(shape);
  call.shape = std::move(shape);
  return call;
}

Spec placed(const RandomCall& call, const char* mesh, const char* placements) {
  return Spec(parse_mesh(mesh), parse_placements(placements), call.shape, call.stride, call.dtype);
}

std::optional<std::string> judge(const RandomCall& call, const DrawOwned& draw) {
  return first_wrong_sample(call, placed(call, "8x2", "[S0,S1]"), {5, 0}, DeviceModel{}, 11, draw);
}

// Catches: one launch where stock splits a tensor beyond 2 GiB into eight.
TEST(SampledDraw, FindsALaunchThatIsNotSplit) {
  const auto call = uniform({65535, 65537});
  EXPECT_EQ(judge(call, draw_owned), std::nullopt);
  const DrawOwned unsplit = [](const RandomCall& c, const std::vector<IndexList>& owned,
                               const RandomState& state, const DeviceModel& device) {
    auto geometry = random_geometry(c, device);
    EXPECT_GT(geometry.launches.size(), 1u);
    geometry.launches = {{0, 65535LL * 65537, device.sm_count * device.threads_per_sm, 0, 0}};
    auto out = at::empty({1, 1});
    fill_local(c, owned, state, geometry, out);
    return out;
  };
  EXPECT_NE(judge(call, unsplit), std::nullopt);
}

// Catches: samples that all lie in the first round of the launch's threads, where a wrong number of them does
// not show.
TEST(SampledDraw, FindsAnotherDevice) {
  const auto call = uniform({4096, 4096});
  const DrawOwned smaller = [](const RandomCall& c, const std::vector<IndexList>& owned,
                               const RandomState& state, const DeviceModel&) {
    return draw_owned(c, owned, state, {108, 2048});
  };
  EXPECT_EQ(judge(call, draw_owned), std::nullopt);
  EXPECT_NE(judge(call, smaller), std::nullopt);
}

// Catches: a draw that is right but for one element of a thousand rounds.
TEST(SampledDraw, LooksAtTheLastRound) {
  const auto call = uniform({16, 1 << 16});
  const DrawOwned wrong_at_end = [](const RandomCall& c, const std::vector<IndexList>& owned,
                                    const RandomState& state, const DeviceModel& device) {
    auto out = draw_owned(c, owned, state, device);
    const bool last = owned[0][0].start == 15 && owned[1][0].start == (1 << 16) - 1;
    return last ? out + 1 : out;
  };
  EXPECT_NE(judge(call, wrong_at_end), std::nullopt);
}

// 1-D to 3-D, uneven, empty shards among them.
TEST(SampledDraw, HoldsForUnevenCuts) {
  for (const auto& [shape, placements] :
       std::vector<std::pair<std::vector<int64_t>, const char*>>{{{(1LL << 32) - 1}, "[S0,R]"},
                                                                 {{7, 1 << 20}, "[S0,S1]"},
                                                                 {{3, 5, 1 << 20}, "[S1,S0]"},
                                                                 {{1001, 1003}, "[S1,S1]"}}) {
    const auto call = uniform(shape);
    EXPECT_EQ(first_wrong_sample(call, placed(call, "8x2", placements), {5, 40}, DeviceModel{}, 3),
              std::nullopt)
        << placements;
  }
}

}  // namespace
}  // namespace lockstep::suites
