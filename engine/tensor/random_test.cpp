// SPDX-License-Identifier: Apache-2.0
// The single device's stream: known answers for whole tensors of every kind.
#include "engine/random/random.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/random/random_geometry.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "kernels/philox_values.h"

namespace lockstep {
namespace {

using IndexLists = std::vector<IndexList>;

const DeviceModel kH200;

RandomCall call_of(RandomKind kind, c10::ScalarType dtype, std::vector<int64_t> shape,
                   std::vector<int64_t> stride = {}) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.stride = stride.empty() ? contiguous_strides(shape) : stride;
  call.shape = std::move(shape);
  return call;
}
RandomCall uniform(double from, double to, c10::ScalarType dtype, std::vector<int64_t> shape) {
  RandomCall call = call_of(RandomKind::kUniform, dtype, std::move(shape));
  call.a = from;
  call.b = to;
  return call;
}
RandomCall integers(int64_t high, std::vector<int64_t> shape) {
  RandomCall call = call_of(RandomKind::kRandint, c10::kLong, std::move(shape));
  call.high = high;
  return call;
}
RandomCall dropout(c10::ScalarType dtype, std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
  RandomCall call = call_of(RandomKind::kDropoutMask, dtype, std::move(shape), std::move(stride));
  call.a = 0.1;
  return call;
}

at::Tensor whole(const RandomCall& call, const RandomState& state, const DeviceModel& device) {
  return draw_local(call, owned_whole(call.shape), call.stride, state, device);
}

// FNV-1a over the bytes in logical order.
uint64_t digest(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

// Digests of stock outputs, simulated with curand's own header: H200, seed 1234, offset 8. Catches: any fault
// of words, lanes, threads, offsets or transforms on these paths.
TEST(DrawLocal, KnownDigests) {
  struct Row {
    int64_t n;
    uint64_t uniform, small, wide, fp64, mask1, mask4, mask8, hits;
  };
  const Row rows[] = {
      {1000, 0x05ed1992eb3973d0, 0x690b1394a91e8397, 0xfbf44425616c88a5, 0x757494450e68a6dd,
       0x8c7cf1203e2eb251, 0x80c4ac98de4f1fce, 0xf07c162afe26be78, 0x21873bef889520a0},
      {1000000, 0xf0e77b00f79ef7d2, 0x16cec150caee339f, 0x24c275f0a338b0fb, 0xff4a2f450231792b,
       0x3f99b3dd1c1e6d7e, 0xcf60fde657d6f5b0, 0x960971d269bd6760, 0xcaec833571826642},
  };
  const RandomState state{1234, 8};
  for (const Row& row : rows) {
    const auto of = [&](const RandomCall& call) { return digest(whole(call, state, kH200)); };
    EXPECT_EQ(of(uniform(-.5, .5, c10::kFloat, {row.n})), row.uniform);
    EXPECT_EQ(of(integers(1000, {row.n})), row.small);
    EXPECT_EQ(of(integers(int64_t{1} << 40, {row.n})), row.wide);
    EXPECT_EQ(of(uniform(0, 1, c10::kDouble, {row.n})), row.fp64);
    EXPECT_EQ(of(dropout(c10::kFloat, {row.n}, {2})), row.mask1);  // not dense: no vectors
    EXPECT_EQ(of(dropout(c10::kFloat, {row.n})), row.mask4);
    EXPECT_EQ(of(dropout(c10::kBFloat16, {row.n})), row.mask8);
    const auto u = whole(call_of(RandomKind::kBernoulliUniform, c10::kFloat, {row.n}), state, kH200);
    EXPECT_EQ(digest(u.le(0.3f)), row.hits);
  }
}

// Printed by torch.cuda after manual_seed(0). Catches: the wrong seed or offset convention.
TEST(DrawLocal, PublishedValues) {
  const at::Tensor u = whole(uniform(0, 1, c10::kFloat, {6}), {0, 0}, kH200);
  const double rand[] = {.39904648, .51667917, .02493039, .94007939, .94585413, .79673123};
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(u.data_ptr<float>()[i], rand[i], 5.1e-9);
  const at::Tensor z = whole(call_of(RandomKind::kNormal, c10::kFloat, {10}), {0, 0}, kH200);
  const double randn[] = {-.9247, -.4253, -2.6438, .1452, -.1209, -.5797, -.6229, -.3284, -1.0745, -.3631};
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(z.data_ptr<float>()[i], randn[i], 5.1e-5);
}

// On an H200 these four elements come out of one block. Catches: lanes and draws exchanged beyond the first
// row.
TEST(DrawLocal, FourLanesOfOneBlock) {
  const RandomCall call = uniform(0, 1, c10::kFloat, {1000000});
  const at::Tensor picked =
      draw_local(call, IndexLists{{{0, 1}, {270336, 1}, {540672, 1}, {811008, 1}}}, {1}, {1234, 0}, kH200);
  const double expected[] = {0.12720795, 0.853468955, 0.265648872, 0.796055257};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(picked.data_ptr<float>()[i], expected[i], 5.1e-9) << i;
}

// Both sides of a 2 GiB split, drawn without the tensor. Catches: parts with the wrong base, or drawn as one
// launch.
TEST(DrawLocal, AcrossASplit) {
  const int64_t half = int64_t{1} << 28;
  const RandomCall call = uniform(0, 1, c10::kFloat, {2 * half + 1});
  const at::Tensor at_split = draw_local(call, IndexLists{{{half - 1, 2}}}, {1}, {5, 40}, kH200);
  const uint64_t whole_increment = 4 * (2 * half / 1081344 + 1),
                 half_increment = 4 * ((half - 1) / 1081344 + 1);
  const int64_t row = (half - 1) / 270336, thread = (half - 1) % 270336;
  const auto lane = static_cast<int>(row % 4);
  const uint64_t base = (40 + whole_increment) / 4;
  const float before = uniform32(philox(5, static_cast<uint64_t>(thread),
                                        base + static_cast<uint64_t>(row / 4))[static_cast<size_t>(lane)]);
  const float after = uniform32(philox(5, 0, base + half_increment / 4)[0]);
  EXPECT_EQ(at_split.data_ptr<float>()[0], before);
  EXPECT_EQ(at_split.data_ptr<float>()[1], after);
}

// Element j of a launch of 256 threads, as a thread reaches it: the words of its draw.
struct Words {
  PhiloxBlock block;
  size_t lane;
  uint64_t pair() const { return uint64_t{block[2 * lane]} << 32 | block[2 * lane + 1]; }
};
Words words(const RandomState& state, int64_t j, int64_t lanes) {
  const auto row = static_cast<uint64_t>(j / 256), n = static_cast<uint64_t>(lanes);
  return {philox(state.seed, static_cast<uint64_t>(j % 256), state.offset / 4 + row / n), row % n};
}

// random_() draws what the dtype holds exactly. Catches: 64 bits where stock takes 32 or the reverse, a range
// without its last integer.
TEST(DrawLocal, IntegersWithoutARange) {
  const DeviceModel tiny{1, 256};
  const RandomState state{21, 16};
  const auto at = [&](RandomKind kind, c10::ScalarType dtype, int64_t j) {
    return whole(call_of(kind, dtype, {1200}), state, tiny).to(at::kDouble)[j].item<double>();
  };
  const auto of = [](uint64_t word) { return static_cast<double>(static_cast<int64_t>(word)); };
  using enum RandomKind;
  for (const int64_t j : {0, 255, 300, 800, 1199}) {
    const uint64_t wide = words(state, j, 2).pair(), narrow = [&] {
      const Words w = words(state, j, 4);
      return w.block[w.lane];
    }();
    EXPECT_EQ(at(kRandom, c10::kLong, j), of(wide % (uint64_t{1} << 63)));
    EXPECT_EQ(at(kRandom, c10::kDouble, j), of(wide % ((uint64_t{1} << 53) + 1)));
    EXPECT_EQ(at(kRandom, c10::kFloat, j), of(narrow % ((1 << 24) + 1)));
    EXPECT_EQ(at(kRandom, c10::kBFloat16, j), of(narrow % 257));
    EXPECT_EQ(at(kRandom, c10::kHalf, j), of(narrow % 2049));
    EXPECT_EQ(at(kRandom, c10::kInt, j), of(narrow % (uint64_t{1} << 31)));
    EXPECT_EQ(at(kRandom, c10::kByte, j), of(narrow % 256));
    EXPECT_EQ(at(kRandom, c10::kBool, j), of(narrow & 1));
    EXPECT_EQ(at(kRandomBits, c10::kLong, j), of(wide));
    EXPECT_EQ(at(kRandomBits, c10::kFloat, j), static_cast<double>(static_cast<float>(of(wide))));
  }
}

// A number of each distribution and sample. Catches: the threads of samples beyond a block of 128, draws and
// distributions exchanged.
TEST(DrawLocal, NumbersOfMultinomial) {
  const RandomState state{9, 40};
  const auto call = call_of(RandomKind::kMultinomialUniform, c10::kFloat, {65540, 3});
  const auto few = draw_local(call, IndexLists{{{65533, 7}}, {{0, 3}}}, {3, 1}, state, kH200);
  for (int64_t d = 65533; d < 65540; ++d)
    for (int64_t s = 0; s < 3; ++s)
      EXPECT_EQ(few[d - 65533][s].item<float>(),
                uniform32(philox(9, static_cast<uint64_t>(d % 65535 * 128 + s),
                                 10 + static_cast<uint64_t>(d / 65535))[0]));
  EXPECT_EQ(advance(call, kH200), 8u);
  const auto wide = whole(call_of(RandomKind::kMultinomialUniform, c10::kFloat, {2, 130}), state, kH200);
  EXPECT_EQ(wide[1][129].item<float>(), uniform32(philox(9, 256 + 129, 10)[0]));
}

// Keys, a stable sort of their low bits, and the runs of equal keys: 7 bits for 5 elements, so that there are
// such runs among a few seeds. Catches: keys of the wrong range or word order, the shuffle at the keys'
// blocks.
TEST(DrawLocal, PermutationsSortKeys) {
  ASSERT_EQ(permutation_key_bits(5), 7);
  int64_t equal = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomState state{seed, 8};
    std::vector<std::pair<uint64_t, int64_t>> sorted;
    for (int64_t j = 0; j < 5; ++j) {
      const uint64_t word = words(state, j, 2).pair();
      sorted.emplace_back((word % 0xffffffff + 0xffffffff80000000) % 128, j);
    }
    std::sort(sorted.begin(), sorted.end());  // pairs: stable
    for (size_t i = 0; i + 1 < 5; ++i) {
      if (sorted[i].first != sorted[i + 1].first) continue;
      ++equal;
      if (philox(seed, i, 3)[0] % 2 == 0) std::swap(sorted[i].second, sorted[i + 1].second);
      ++i;
    }
    const auto order = whole(call_of(RandomKind::kRandperm, c10::kLong, {5}), state, kH200);
    for (int64_t i = 0; i < 5; ++i)
      ASSERT_EQ(order[i].item<int64_t>(), sorted[static_cast<size_t>(i)].second) << "seed " << seed;
  }
  EXPECT_GT(equal, 5);
}

// Lengths on both sides of the changes of keys. Catches: an element lost or doubled.
TEST(DrawLocal, PermutationsHaveEachIndexOnce) {
  for (const int64_t n : {1, 2, 129, 21288, 30084}) {
    const auto order = whole(call_of(RandomKind::kRandperm, c10::kLong, {n}), {1, 0}, kH200);
    EXPECT_TRUE(std::get<0>(order.sort()).equal(at::arange(n))) << n;
  }
}

// A transposed tensor fills memory as its contiguous twin. Catches: logical order.
TEST(DrawLocal, TransposedTensorsFillMemory) {
  const RandomState state{3, 0};
  const DeviceModel tiny{1, 256};
  const at::Tensor rows = whole(call_of(RandomKind::kNormal, c10::kFloat, {30, 50}), state, tiny);
  const at::Tensor columns = whole(call_of(RandomKind::kNormal, c10::kFloat, {50, 30}, {1, 50}), state, tiny);
  EXPECT_TRUE(at::equal(rows, columns.t()));
}

// Catches: a scalar tensor not drawn, or drawn as empty; an empty one drawn.
TEST(DrawLocal, ScalarsAndEmptyTensors) {
  const at::Tensor scalar = whole(uniform(0, 1, c10::kFloat, {}), {0, 0}, kH200);
  EXPECT_NEAR(scalar.item<float>(), .39904648, 5.1e-9);
  EXPECT_EQ(whole(uniform(0, 1, c10::kFloat, {3, 0}), {0, 0}, kH200).numel(), 0);
}

// Catches: drawing from an offset that no generator has.
TEST(DrawLocal, RefusesAnOddOffset) {
  EXPECT_THROW(whole(uniform(0, 1, c10::kFloat, {3}), {0, 2}, kH200), Error);
}

// Two calls in a row are the stream at offset 0 and at the first call's advance. Catches: a source that does
// not move the state, moves it by elements, or ignores the tensor's own strides.
TEST(ClosedFormSource, MovesTheState) {
  ClosedFormSource source;
  RandomState state{11, 0};
  const DeviceModel tiny{1, 256};
  const RandomCall call = call_of(RandomKind::kUniform, c10::kFloat, {40, 50}, {1, 40});
  const at::Tensor first = at::empty_strided({40, 50}, {1, 40}),
                   second = at::empty_strided({40, 50}, {1, 40});
  source.fill(call, first, tiny, state);
  EXPECT_EQ(state, (RandomState{11, 8}));
  source.fill(call, second, tiny, state);
  EXPECT_EQ(state, (RandomState{11, 16}));
  EXPECT_TRUE(at::equal(first, whole(call, {11, 0}, tiny)));
  EXPECT_TRUE(at::equal(second, whole(call, {11, 8}, tiny)));
  EXPECT_FALSE(at::equal(first, second));
}

}  // namespace
}  // namespace lockstep
