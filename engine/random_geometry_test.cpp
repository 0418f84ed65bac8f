// SPDX-License-Identifier: Apache-2.0
// Launches of stock kernels, against figures measured with libtorch's own TensorIterator and documented for
// H200.
#include "engine/random_geometry.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

const DeviceModel kH200;
const DeviceModel kTiny{1, 256};

RandomCall call_of(RandomKind kind, c10::ScalarType dtype, std::vector<int64_t> shape,
                   std::vector<int64_t> stride = {}) {
  RandomCall call;
  call.kind = kind;
  call.a = 0.1;
  call.high = 10;
  call.dtype = dtype;
  call.stride = stride.empty() ? contiguous_strides(shape) : stride;
  call.shape = std::move(shape);
  return call;
}
RandomCall uniform(c10::ScalarType dtype, std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
  return call_of(RandomKind::kUniform, dtype, std::move(shape), std::move(stride));
}

std::vector<int64_t> counts(const RandomCall& call) {
  std::vector<int64_t> result;
  for (const RandomLaunch& launch : random_geometry(call, kH200).launches) result.push_back(launch.count);
  return result;
}

// Catches: the cap on blocks, the rounding up, words and blocks confused.
TEST(RandomGeometry, ThreadsAndAdvance) {
  const auto one = random_geometry(uniform(c10::kFloat, {1}), kH200);
  EXPECT_EQ(one.launches, (std::vector<RandomLaunch>{{0, 1, 256, 0}}));
  EXPECT_EQ(one.advance, 4u);
  const auto million = random_geometry(uniform(c10::kFloat, {1000000}), kH200);
  EXPECT_EQ(million.launches[0].threads, 270336);
  EXPECT_EQ(million.advance, 4u);
  EXPECT_EQ(random_geometry(uniform(c10::kFloat, {1081344}), kH200).advance, 4u);
  EXPECT_EQ(random_geometry(uniform(c10::kFloat, {1081345}), kH200).advance, 8u);
  EXPECT_EQ(random_geometry(uniform(c10::kDouble, {1081344}), kH200).advance, 8u);
  EXPECT_EQ(random_geometry(uniform(c10::kFloat, {1025}), kTiny).advance, 8u);
}

// 64-bit integers take half as many values from a block, from a range of 2^28 on. Catches: 2^32, or <=.
TEST(RandomGeometry, WideIntegersTakeTwoWords) {
  RandomCall call = call_of(RandomKind::kRandint, c10::kLong, {1024});
  call.high = (int64_t{1} << 28) - 1;
  EXPECT_EQ(random_geometry(call, kTiny).advance, 4u);
  call.high += 1;
  EXPECT_EQ(random_geometry(call, kTiny).advance, 8u);
  call.low = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(lanes_per_block(call), 2);
}

// Catches: division by zero, or a draw for nothing.
TEST(RandomGeometry, NothingToDraw) {
  for (auto kind : {RandomKind::kUniform, RandomKind::kNormal, RandomKind::kRandint, RandomKind::kBernoulli,
                    RandomKind::kDropoutMask}) {
    const auto geometry = random_geometry(call_of(kind, c10::kFloat, {3, 0, 2}), kH200);
    EXPECT_EQ(geometry.advance, 0u);
    EXPECT_TRUE(geometry.launches.empty());
  }
}

// Catches: a limit in elements instead of bytes, the split in the wrong place or order.
TEST(RandomGeometry, SplitsAboveTwoGibibytes) {
  const int64_t k = 1024;
  EXPECT_EQ(counts(uniform(c10::kFloat, {512 * k * k})), (std::vector<int64_t>{512 * k * k}));
  EXPECT_EQ(counts(uniform(c10::kFloat, {512 * k * k + 1})),
            (std::vector<int64_t>{256 * k * k, 256 * k * k + 1}));
  EXPECT_EQ(counts(uniform(c10::kBFloat16, {3, k, k * k})), std::vector<int64_t>(4, 805306368));
  EXPECT_EQ(counts(uniform(c10::kFloat, {4 * k, k * k})), std::vector<int64_t>(8, 512 * k * k));
  EXPECT_EQ(counts(uniform(c10::kFloat, {3000000000})), std::vector<int64_t>(8, 375000000));
  EXPECT_EQ(counts(uniform(c10::kDouble, {256 * k * k})), (std::vector<int64_t>{256 * k * k}));
  EXPECT_EQ(counts(uniform(c10::kDouble, {256 * k * k + 1})).size(), 2u);
  EXPECT_EQ(counts(call_of(RandomKind::kBernoulli, c10::kByte, {2 * k * k * k - 1})).size(), 1u);
  EXPECT_EQ(counts(call_of(RandomKind::kBernoulli, c10::kByte, {2 * k * k * k})).size(), 2u);
  // A view: 2 GiB of elements spread over 4 GiB of memory.
  EXPECT_EQ(counts(uniform(c10::kFloat, {128 * k, 4 * k}, {8 * k, 1})), std::vector<int64_t>(2, 256 * k * k));
}

// The whole call's increment is consumed before the parts draw. Catches: forgetting it, or counting it at the
// end.
TEST(RandomGeometry, SplittingDiscardsOneIncrement) {
  const auto geometry = random_geometry(uniform(c10::kFloat, {int64_t{1} << 32}), kH200);
  EXPECT_EQ(geometry.advance, 31792u);
  EXPECT_EQ(geometry.launches[0].offset, 15888u);
  EXPECT_EQ(geometry.launches[1].offset, 15888u + 1988u);
}

// Interlaced strides do not overlap, but their parts are not consecutive in the stream. Catches: a wrong
// stream.
TEST(RandomGeometry, RefusesInterlacedGiants) {
  EXPECT_THROW(random_geometry(uniform(c10::kFloat, {1 << 30, 2}, {2, 7}), kH200), NotBuilt);
}

// Catches: logical order where memory order is meant, dims of size 1 in the way.
TEST(RandomGeometry, NumbersElementsInMemoryOrder) {
  const auto ranks = [](std::vector<int64_t> shape, std::vector<int64_t> stride) {
    return random_geometry(uniform(c10::kFloat, std::move(shape), std::move(stride)), kTiny).rank_stride;
  };
  EXPECT_EQ(ranks({4, 5}, {5, 1}), (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(ranks({4, 5}, {1, 4}), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(ranks({2, 3, 4, 5}, {60, 1, 15, 3}), (std::vector<int64_t>{60, 1, 15, 3}));  // channels last
  EXPECT_EQ(ranks({6, 4}, {8, 1}), (std::vector<int64_t>{4, 1}));             // [:, :4] of 8 columns
  EXPECT_EQ(ranks({6, 1, 4}, {8, 999, 2}), (std::vector<int64_t>{4, 0, 1}));  // [:, ::2]
}

// Catches: VEC of the wrong dtype or by numel rules of an older version, a view read as vectors.
TEST(RandomGeometry, DropoutWidths) {
  const auto width = [](c10::ScalarType dtype, std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
    return random_geometry(call_of(RandomKind::kDropoutMask, dtype, std::move(shape), std::move(stride)),
                           kTiny)
        .vector_width;
  };
  EXPECT_EQ(width(c10::kFloat, {8}), 4);
  EXPECT_EQ(width(c10::kFloat, {6}), 2);
  EXPECT_EQ(width(c10::kFloat, {7}), 1);
  EXPECT_EQ(width(c10::kBFloat16, {16}), 8);
  EXPECT_EQ(width(c10::kHalf, {12}), 4);
  EXPECT_EQ(width(c10::kDouble, {8}), 2);
  EXPECT_EQ(width(c10::kFloat, {8, 4}, {1, 8}), 4);  // dense, permuted
  EXPECT_EQ(width(c10::kFloat, {8, 4}, {8, 1}), 1);  // with gaps
  EXPECT_EQ(width(c10::kFloat, {8, 4}, {0, 1}), 1);  // expanded
  // Without vectors the index is the logical one, whatever the memory order.
  const auto odd = random_geometry(call_of(RandomKind::kDropoutMask, c10::kFloat, {3, 5}, {1, 3}), kTiny);
  EXPECT_EQ(odd.rank_stride, (std::vector<int64_t>{5, 1}));
}

// Catches: the offset moved by what was drawn instead of what stock reserves.
TEST(RandomGeometry, DropoutReservesAsForWidthFour) {
  const auto advance = [](c10::ScalarType dtype, int64_t n, double p = 0.1) {
    RandomCall call = call_of(RandomKind::kDropoutMask, dtype, {n});
    call.a = p;
    return random_geometry(call, kTiny).advance;
  };
  EXPECT_EQ(advance(c10::kFloat, 1024), 4u);
  EXPECT_EQ(advance(c10::kFloat, 1025), 8u);
  EXPECT_EQ(advance(c10::kBFloat16, 1024), 4u);  // drew 8 words a thread
  EXPECT_EQ(advance(c10::kDouble, 1024), 4u);    // drew 2 blocks a thread
  EXPECT_EQ(advance(c10::kFloat, 1024, 1.0), 0u);
  EXPECT_EQ(advance(c10::kFloat, 1024, 0.0), 4u);
}

// Catches: arguments that stock refuses, drawn anyway.
TEST(RandomGeometry, RefusesWhatStockRefuses) {
  EXPECT_THROW(random_geometry(uniform(c10::kLong, {4}), kH200), Error);
  EXPECT_THROW(random_geometry(uniform(c10::kFloat, {4, 4}, {0, 1}), kH200), Error);
  EXPECT_THROW(random_geometry(uniform(c10::kFloat, {4}), DeviceModel{0, 2048}), Error);
  RandomCall reversed = uniform(c10::kFloat, {4});
  reversed.a = 2;
  EXPECT_THROW(random_geometry(reversed, kH200), Error);
  RandomCall negative = call_of(RandomKind::kNormal, c10::kFloat, {4});
  negative.b = -1;
  EXPECT_THROW(random_geometry(negative, kH200), Error);
  RandomCall improbable = call_of(RandomKind::kBernoulli, c10::kBool, {4});
  improbable.a = 1.5;
  EXPECT_THROW(random_geometry(improbable, kH200), Error);
  RandomCall coarse = call_of(RandomKind::kRandint, c10::kBFloat16, {4});
  coarse.high = 258;
  EXPECT_THROW(random_geometry(coarse, kH200), Error);
  coarse.high = 257;
  EXPECT_NO_THROW(random_geometry(coarse, kH200));
}

}  // namespace
}  // namespace lockstep
