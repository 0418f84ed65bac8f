// SPDX-License-Identifier: Apache-2.0
// The sharded stream: known answers for whole tensors, and the law that shards are slices of them.
#include "engine/random.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/random_geometry.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "kernels/philox_values.h"

namespace lockstep {
namespace {

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
    uint64_t uniform, small, wide, fp64, mask1, mask4, mask8;
  };
  const Row rows[] = {
      {1000, 0x05ed1992eb3973d0, 0x690b1394a91e8397, 0xfbf44425616c88a5, 0x757494450e68a6dd,
       0x8c7cf1203e2eb251, 0x80c4ac98de4f1fce, 0xf07c162afe26be78},
      {1000000, 0xf0e77b00f79ef7d2, 0x16cec150caee339f, 0x24c275f0a338b0fb, 0xff4a2f450231792b,
       0x3f99b3dd1c1e6d7e, 0xcf60fde657d6f5b0, 0x960971d269bd6760},
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
      draw_local(call, {{{0, 1}, {270336, 1}, {540672, 1}, {811008, 1}}}, {1}, {1234, 0}, kH200);
  const double expected[] = {0.12720795, 0.853468955, 0.265648872, 0.796055257};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(picked.data_ptr<float>()[i], expected[i], 5.1e-9) << i;
}

// Both sides of a 2 GiB split, drawn without the tensor. Catches: parts with the wrong base, or drawn as one
// launch.
TEST(DrawLocal, AcrossASplit) {
  const int64_t half = int64_t{1} << 28;
  const RandomCall call = uniform(0, 1, c10::kFloat, {2 * half + 1});
  const at::Tensor at_split = draw_local(call, {{{half - 1, 2}}}, {1}, {5, 40}, kH200);
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

std::vector<RandomCall> every_kind(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  std::vector<RandomCall> calls;
  for (auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kHalf}) {
    calls.push_back(call_of(RandomKind::kUniform, dtype, shape, stride));
    calls.push_back(call_of(RandomKind::kNormal, dtype, shape, stride));
    calls.push_back(dropout(dtype, shape, stride));
  }
  for (auto dtype : {c10::kLong, c10::kInt, c10::kShort, c10::kChar, c10::kByte, c10::kBool, c10::kFloat,
                     c10::kBFloat16, c10::kHalf, c10::kDouble})
    for (int64_t high : {int64_t{2}, int64_t{1} << 33}) {
      if (high > 2 && dtype != c10::kLong) continue;
      calls.push_back(call_of(RandomKind::kRandint, dtype, shape, stride));
      calls.back().high = high;
      calls.push_back(call_of(RandomKind::kBernoulli, dtype, shape, stride));
      calls.back().a = 0.3;
    }
  return calls;
}

at::Tensor indices(const IndexList& list) {
  std::vector<int64_t> result;
  for (const Interval& i : list)
    for (int64_t k = 0; k < i.length; ++k) result.push_back(i.start + k);
  return at::tensor(result, at::kLong);
}

// What `owned` names of the whole, picked by plain indexing.
at::Tensor picked(at::Tensor tensor, const std::vector<IndexList>& owned) {
  for (size_t d = 0; d < owned.size(); ++d)
    tensor = tensor.index_select(static_cast<int64_t>(d), indices(owned[d]));
  return tensor;
}

// Ways to cut n indices that placements make: even, uneven, empty, interleaved, nested.
std::vector<IndexList> cuts(int64_t n) {
  std::vector<IndexList> lists{{}, {{0, n}}};
  for (int64_t m : {2, 3, 7})
    for (int64_t r = 0; r < m; ++r) {
      const Interval mine = chunk(n, m, r);
      if (mine.length > 0) lists.push_back({mine});
    }
  if (n >= 6) {
    lists.push_back({{0, n / 6}, {n / 2, n / 6}});          // InterleavedShard
    lists.push_back({{n / 3, 1}, {n / 2, 2}, {n - 1, 1}});  // of single elements
    lists.push_back({{n / 2, n / 2}, {0, n / 3}});          // parts in another order
  }
  return lists;
}

void check_shard(const RandomCall& call, const at::Tensor& all, const std::vector<IndexList>& owned,
                 const DeviceModel& device) {
  const at::Tensor expected = picked(all, owned);
  std::vector<int64_t> padded = contiguous_strides(expected.sizes().vec());
  for (int64_t& step : padded) step *= 2;
  padded.front() += 5;
  for (const auto& stride : {contiguous_strides(expected.sizes().vec()), padded}) {
    const at::Tensor local = draw_local(call, owned, stride, {42, 12}, device);
    ASSERT_EQ(local.strides(), at::IntArrayRef(stride));
    ASSERT_TRUE(at::equal(local, expected))
        << static_cast<int>(call.kind) << " " << dtype_name(call.dtype) << " " << shape_text(call.shape)
        << " stride " << shape_text(call.stride);
  }
}

// Every kind and dtype, tiny devices (several draws a thread), memory orders, all pairs of cuts. Catches:
// an element numbered by its place in the shard, logical for memory order, a lane taken from the local
// launch, an order of local memory mistaken for the global one.
TEST(DrawLocal, ShardsAreSlicesOfTheWhole) {
  struct Memory {
    std::vector<int64_t> shape, stride;
  };
  const Memory memories[] = {{{46, 60}, {60, 1}},
                             {{46, 60}, {1, 46}},
                             {{45, 61}, {61, 1}},
                             {{46, 60}, {120, 2}},
                             {{7, 13, 24}, {24, 168, 1}}};
  for (const DeviceModel& device : {DeviceModel{1, 256}, DeviceModel{2, 256}, kH200})
    for (const Memory& memory : memories)
      for (const RandomCall& call : every_kind(memory.shape, memory.stride)) {
        const at::Tensor all = whole(call, {42, 12}, device);
        const auto last = cuts(memory.shape.back());
        size_t next = 0;  // each cut of the first dimension with three of the last
        for (const IndexList& first : cuts(memory.shape.front()))
          for (int k = 0; k < 3; ++k) {
            std::vector<IndexList> owned = owned_whole(memory.shape);
            owned.front() = first;
            owned.back() = last[next++ % last.size()];
            check_shard(call, all, owned, device);
            if (HasFatalFailure()) return;
          }
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
