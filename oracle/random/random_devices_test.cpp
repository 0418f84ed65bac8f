// SPDX-License-Identifier: Apache-2.0
// What users of torch.cuda printed and published, from real devices of several models: four decimals of
// normal and uniform numbers, indices of dropped elements. Would catch: another use of words beyond the first
// draw of a thread, the geometry of one model taken for that of another, dropout's vectors numbered
// otherwise.
#include <gtest/gtest.h>

#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

const DeviceModel kH100{132, 2048}, kA100{108, 2048}, kRtx3060{28, 1536}, kRtxA4000{48, 1536},
    kRtx2070Super{40, 1024}, kRtxA6000{84, 1536}, kRtx4080Super{80, 1536};
constexpr double kPrinted = 5.1e-5;  // half of the last decimal

using Corners = std::vector<std::vector<double>>;

// As torch prints a large tensor: its first and last three rows and columns.
void expect_corners(const at::Tensor& x, const Corners& printed) {
  const auto index = [](int64_t size, size_t i) {
    const auto k = static_cast<int64_t>(i);
    return k < 3 ? k : size - 6 + k;
  };
  for (size_t i = 0; i < printed.size(); ++i)
    for (size_t k = 0; k < printed[i].size(); ++k)
      EXPECT_NEAR(x[index(x.size(0), i)][index(x.size(1), k)].item<double>(), printed[i][k], kPrinted)
          << "row " << i << " column " << k;
}

at::Tensor normal(std::vector<int64_t> shape, uint64_t seed, const DeviceModel& device, double mean = 0,
                  double deviation = 1) {
  return draw(call_of(RandomKind::kNormal, at::kFloat, std::move(shape), mean, deviation), {seed, 0}, device);
}

TEST(RandomDevices, Rtx3060) {
  expect_corners(normal({64, 2048}, 42, kRtx3060), {{.1940, 2.1614, -.1721, 1.4540, -2.7733, -.8932},
                                                    {-.4574, .8063, .1580, .1124, .2769, -1.2535},
                                                    {1.1346, -.6329, -.9147, -1.0001, -1.1552, -.6955},
                                                    {-.4861, .3358, 1.0578, -.7282, .5087, .1318},
                                                    {.7881, .8339, -1.1424, -.6297, -1.1112, -.4091},
                                                    {-1.2356, -.4083, -.4695, -.4841, 1.2850, -.0282}});
}

TEST(RandomDevices, H100AndA100) {
  const int64_t n = 49 * 12 * 112 * 144;  // nine draws a thread on the one, eleven on the other
  expect_corners(normal({1, n}, 1, kH100), {{-.2963, 2.6764, -.1408, -.6970, -.7780, .3267}});
  expect_corners(normal({1, n}, 1, kA100), {{-.2963, 2.6764, -.1408, .1549, -.6797, -.1656}});
}

TEST(RandomDevices, RtxA4000And2070Super) {
  const Corners head{{2.8731, 5.2727, 2.9889, 1.6853, 9.6331, 6.6319},
                     {3.9968, 3.8097, 5.7328, 4.4029, 3.9804, 7.4698},
                     {6.5552, 4.0857, 4.2315, 2.7704, 3.5479, 3.3063}};
  auto all = head;
  all.push_back({8.6297, 2.3137, 6.2596, 7.9358, 4.4697, 2.7475});
  all.push_back({7.0551, 7.8583, 3.9990, 4.1139, 8.9315, 4.2042});
  all.push_back({2.7337, 2.2106, 7.7815, 8.2207, 6.5395, 4.2604});
  expect_corners(normal({1000, 100}, 14, kRtxA4000, 5, std::sqrt(5.0)), all);
  expect_corners(normal({1000, 100}, 14, kRtx2070Super, 5, std::sqrt(5.0)), {head[0], head[1]});
}

TEST(RandomDevices, RtxA6000) {
  const auto noise = normal({1, 3, 128, 128}, 43, kRtxA6000);
  const double printed[] = {1.9983, .8704, 2.1127};
  for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(noise[0][c][0][0].item<double>(), printed[c], kPrinted);
}

TEST(RandomDevices, ShortTensorsOnAnyDevice) {
  const auto three = normal({3}, 10, kH100);
  const double printed[] = {-.1029, 1.6810, -.2708};
  for (int64_t i = 0; i < 3; ++i) EXPECT_NEAR(three[i].item<double>(), printed[i], kPrinted);
  // The weight and the bias of Linear(1, 1): uniform_(-1, 1) twice. The second starts where the first ended.
  RandomState state{42, 0};
  const auto weight = at::empty({1, 1}), bias = at::empty({1});
  SimulatedSource source;
  source.fill(call_of(RandomKind::kUniform, at::kFloat, {1, 1}, -1, 1), weight, kH100, state);
  source.fill(call_of(RandomKind::kUniform, at::kFloat, {1}, -1, 1), bias, kH100, state);
  EXPECT_NEAR(weight.item<double>(), .2259, kPrinted);
  EXPECT_NEAR(bias.item<double>(), .9754, kPrinted);
}

TEST(RandomDevices, DropoutOnRtx4080Super) {
  const auto call = call_of(RandomKind::kDropoutMask, at::kFloat, {512 * 4 * 1024}, .1);
  const auto dropped = draw(call, {1, 0}, kRtx4080Super).logical_not().nonzero().flatten();
  const int64_t printed[] = {8, 14, 20, 2097121, 2097140, 2097151};
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(dropped[i].item<int64_t>(), printed[i]);
    EXPECT_EQ(dropped[i - 3].item<int64_t>(), printed[i + 3]);
  }
}

}  // namespace
}  // namespace lockstep::oracle
