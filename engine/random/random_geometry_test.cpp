// SPDX-License-Identifier: Apache-2.0
// Launches of stock kernels, against figures measured with libtorch's own TensorIterator and documented for
// H200.
#include "engine/random/random_geometry.h"

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
  using enum RandomKind;
  for (auto kind : {kUniform, kNormal, kLogNormal, kExponential, kCauchy, kGeometric, kBernoulli,
                    kBernoulliUniform, kRandint, kRandom, kRandomBits, kDropoutMask, kRreluNoise}) {
    const auto geometry = random_geometry(call_of(kind, c10::kFloat, {3, 0, 2}), kH200);
    EXPECT_EQ(geometry.advance, 0u);
    EXPECT_TRUE(geometry.launches.empty());
    EXPECT_EQ(indexed_geometry(call_of(kind, c10::kFloat, {3, 0, 2})).advance, 0u);
  }
  EXPECT_EQ(random_geometry(call_of(kRandperm, c10::kLong, {0}), kH200).advance, 0u);
  for (const auto& shape : {std::vector<int64_t>{0, 3}, std::vector<int64_t>{3, 0}})
    EXPECT_EQ(random_geometry(call_of(kMultinomialUniform, c10::kFloat, shape), kH200).advance, 0u);
}

// A tensor of probabilities has a kernel of its own: 4 elements a thread, as many threads as that takes, and
// 10 words of any size. Catches: the common launch, or memory order where the tensor has gaps.
TEST(RandomGeometry, ProbabilitiesHaveTheirOwnLaunch) {
  const auto of = [](std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
    return random_geometry(
        call_of(RandomKind::kBernoulliUniform, c10::kFloat, std::move(shape), std::move(stride)), kTiny);
  };
  EXPECT_EQ(of({2048}).launches, (std::vector<RandomLaunch>{{0, 2048, 512, 0}}));
  EXPECT_EQ(of({int64_t{1} << 30}).launches,
            (std::vector<RandomLaunch>{{0, int64_t{1} << 30, int64_t{1} << 28, 0}}));
  EXPECT_EQ(of({2049}).launches[0].threads, 1024);
  EXPECT_EQ(of({100000}).advance, 12u);
  EXPECT_EQ(of({4, 5}, {1, 4}).rank_stride, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(of({4, 5}, {1, 8}).rank_stride, (std::vector<int64_t>{5, 1}));
}

// Catches: rrelu's noise in memory order, or split at 2 GiB.
TEST(RandomGeometry, SlopesAreNumberedLogically) {
  const auto slopes = random_geometry(call_of(RandomKind::kRreluNoise, c10::kDouble, {3, 5}, {1, 3}), kTiny);
  EXPECT_EQ(slopes.rank_stride, (std::vector<int64_t>{5, 1}));
  const int64_t large = (int64_t{1} << 28) + 1;
  EXPECT_EQ(random_geometry(call_of(RandomKind::kRreluNoise, c10::kDouble, {large}), kH200).launches,
            (std::vector<RandomLaunch>{{0, large, 270336, 0}}));
  EXPECT_EQ(random_geometry(call_of(RandomKind::kRreluNoise, c10::kFloat, {1025}), kTiny).advance, 8u);
  EXPECT_EQ(random_geometry(call_of(RandomKind::kRreluNoise, c10::kDouble, {1024}), kTiny).advance, 8u);
}

// The keys' draw, then a word for each element. Catches: either of them forgotten, keys of the other width.
TEST(RandomGeometry, PermutationsDrawTwice) {
  const auto of = [](int64_t n) {
    return random_geometry(call_of(RandomKind::kRandperm, c10::kLong, {n}), kTiny);
  };
  EXPECT_EQ(of(1).advance, 8u);
  EXPECT_EQ(of(513).shuffle_offset, 8u);
  EXPECT_EQ(of(513).advance, 8u + 516u);
  EXPECT_EQ(permutation_keys(call_of(RandomKind::kRandperm, c10::kHalf, {30083})).dtype, c10::kInt);
  EXPECT_EQ(permutation_keys(call_of(RandomKind::kRandperm, c10::kHalf, {30084})).dtype, c10::kLong);
  EXPECT_EQ(permutation_key_bits(21272), 31);
  EXPECT_EQ(permutation_key_bits(21273), 32);
  EXPECT_THROW(random_geometry(call_of(RandomKind::kRandperm, c10::kByte, {257}), kTiny), Error);
}

// Catches: an advance that depends on the size, or an order of memory.
TEST(RandomGeometry, IndexedNumbersKnowNoDevice) {
  const auto geometry = indexed_geometry(call_of(RandomKind::kNormal, c10::kDouble, {3000, 50}, {1, 3000}));
  EXPECT_EQ(geometry.rank_stride, (std::vector<int64_t>{50, 1}));
  EXPECT_EQ(geometry.launches, (std::vector<RandomLaunch>{{0, 150000, 1, 0}}));
  EXPECT_EQ(geometry.advance, 4u);
  EXPECT_TRUE(geometry.indexed);
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
  RandomCall large = call_of(RandomKind::kRandint, c10::kHalf, {4});
  large.high = 65506;
  EXPECT_THROW(random_geometry(large, kH200), Error);
  large.high = 65505;
  EXPECT_NO_THROW(random_geometry(large, kH200));
  large.low = large.high;
  EXPECT_THROW(random_geometry(large, kH200), Error);
  EXPECT_THROW(random_geometry(call_of(RandomKind::kRandomBits, c10::kHalf, {4}), kH200), Error);
  EXPECT_THROW(random_geometry(call_of(RandomKind::kRandperm, c10::kBFloat16, {4}), kH200), Error);
  EXPECT_NO_THROW(random_geometry(call_of(RandomKind::kRandperm, c10::kBFloat16, {0}), kH200));
  RandomCall wrapped = call_of(RandomKind::kRandint, c10::kLong, {4});
  wrapped.high = std::numeric_limits<int64_t>::min();  // past the largest int64
  EXPECT_EQ(lanes_per_block(wrapped), 2);
  EXPECT_NO_THROW(random_geometry(wrapped, kH200));
}

// Catches: numbers for more elements or threads than stock's 32-bit indices count.
TEST(RandomGeometry, RefusesWhatOverflowsStocksIndices) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  auto slopes = call_of(RandomKind::kRreluNoise, c10::kFloat, {most});
  EXPECT_NO_THROW(random_geometry(slopes, kH200));
  slopes = call_of(RandomKind::kRreluNoise, c10::kFloat, {2, most / 2 + 1});
  EXPECT_THROW(random_geometry(slopes, kH200), Error);
  // 2^24 blocks of 128 samples are 2^31 threads.
  const auto samples = [](int64_t dists, int64_t each) {
    return call_of(RandomKind::kMultinomialUniform, c10::kFloat, {dists, each});
  };
  EXPECT_NO_THROW(random_geometry(samples(1, ((int64_t{1} << 24) - 1) * 128), kH200));
  EXPECT_THROW(random_geometry(samples(1, (int64_t{1} << 31) - 127), kH200), Error);
  EXPECT_NO_THROW(random_geometry(samples(65535, 256 * 128 - 128), kH200));
  EXPECT_THROW(random_geometry(samples(100000, 257 * 128), kH200), Error);
}

}  // namespace
}  // namespace lockstep
