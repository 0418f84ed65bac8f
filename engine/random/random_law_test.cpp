// SPDX-License-Identifier: Apache-2.0
// The law of the sharded stream: whatever is drawn and however it is cut, a shard is a slice of the whole.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/random/random.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

const RandomState kState{42, 12};

RandomCall call_of(RandomKind kind, c10::ScalarType dtype, double a = 0, double b = 1) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.a = a;
  call.b = b;
  return call;
}
RandomCall integers(c10::ScalarType dtype, int64_t high) {
  RandomCall call = call_of(RandomKind::kRandint, dtype);
  call.high = high;
  return call;
}

// Every kind with every dtype that it takes; shapes are filled in later.
std::vector<RandomCall> every_kind() {
  using enum RandomKind;
  std::vector<RandomCall> calls{integers(c10::kLong, int64_t{1} << 33), call_of(kRandomBits, c10::kLong),
                                call_of(kBernoulliUniform, c10::kFloat),
                                call_of(kBernoulliUniform, c10::kDouble)};
  for (auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kHalf})
    for (const auto& call :
         {call_of(kUniform, dtype), call_of(kNormal, dtype), call_of(kDropoutMask, dtype, 0.1),
          call_of(kLogNormal, dtype), call_of(kExponential, dtype, 2), call_of(kCauchy, dtype),
          call_of(kRreluNoise, dtype, 0.125, 0.25)})
      calls.push_back(call);
  for (auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16}) calls.push_back(call_of(kRandomBits, dtype));
  for (auto dtype : {c10::kLong, c10::kInt, c10::kShort, c10::kChar, c10::kByte, c10::kBool, c10::kFloat,
                     c10::kBFloat16, c10::kHalf, c10::kDouble}) {
    for (const auto& call : {integers(dtype, 2), call_of(kBernoulli, dtype, 0.3), call_of(kRandom, dtype)})
      calls.push_back(call);
    if (dtype != c10::kBool) calls.push_back(call_of(kGeometric, dtype, 0.1));
  }
  return calls;
}

struct Memory {
  std::vector<int64_t> shape, stride;
};

RandomCall in(const Memory& memory, RandomCall call) {
  call.shape = memory.shape;
  call.stride = memory.stride;
  return call;
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

at::Tensor drawn(const RandomCall& call, const std::vector<IndexList>& owned,
                 const std::vector<int64_t>& shape, const std::vector<int64_t>& stride,
                 const RandomGeometry& geometry) {
  const at::Tensor out = at::empty_strided(shape, stride, value_dtype(call));
  fill_local(call, owned, kState, geometry, out);
  return out;
}

// NaNs, infinities and signs of zeros count: bits are compared.
bool same_bits(const at::Tensor& x, const at::Tensor& y) {
  const auto bits = [](const at::Tensor& t) { return t.contiguous().view(at::kByte); };
  return x.sizes() == y.sizes() && (x.numel() == 0 || at::equal(bits(x), bits(y)));
}

void check_shard(const RandomCall& call, const at::Tensor& all, const std::vector<IndexList>& owned,
                 const RandomGeometry& geometry) {
  const at::Tensor expected = picked(all, owned);
  std::vector<int64_t> padded = contiguous_strides(expected.sizes().vec());
  for (int64_t& step : padded) step *= 2;
  padded.front() += 5;
  for (const auto& stride : {contiguous_strides(expected.sizes().vec()), padded})
    ASSERT_TRUE(same_bits(drawn(call, owned, expected.sizes().vec(), stride, geometry), expected))
        << static_cast<int>(call.kind) << " " << dtype_name(call.dtype) << " " << shape_text(call.shape)
        << " stride " << shape_text(call.stride) << (geometry.indexed ? " indexed" : "");
}

// Each cut of the first dimension, with three of the last if that is another.
void check_shards(const RandomCall& call, const RandomGeometry& geometry) {
  const at::Tensor all = drawn(call, owned_whole(call.shape), call.shape, call.stride, geometry);
  const auto last = cuts(call.shape.back());
  size_t next = 0;
  for (const IndexList& first : cuts(call.shape.front()))
    for (int k = 0; k < 3; ++k) {
      std::vector<IndexList> owned = owned_whole(call.shape);
      owned.back() = last[next++ % last.size()];
      owned.front() = first;
      check_shard(call, all, owned, geometry);
      if (testing::Test::HasFatalFailure()) return;
    }
}

const Memory kMemories[] = {{{46, 60}, {60, 1}},
                            {{46, 60}, {1, 46}},
                            {{45, 61}, {61, 1}},
                            {{46, 60}, {120, 2}},
                            {{7, 13, 24}, {24, 168, 1}}};

// Every kind and dtype, tiny devices (several draws a thread), memory orders, pairs of cuts. Catches: an
// element numbered by its place in the shard, logical for memory order, a lane taken from the local launch,
// an order of local memory mistaken for the global one.
TEST(ShardsOfRandomTensors, AreSlicesOfTheWhole) {
  for (const DeviceModel& device : {DeviceModel{1, 256}, DeviceModel{2, 256}, DeviceModel{}})
    for (const Memory& memory : kMemories)
      for (const RandomCall& call : every_kind()) {
        check_shards(in(memory, call), random_geometry(in(memory, call), device));
        if (HasFatalFailure()) return;
      }
}

// The same for numbers that belong to no device. Catches: an index in memory order, or of the shard.
TEST(ShardsOfRandomTensors, AreSlicesOfTheIndexedWhole) {
  for (const Memory& memory : kMemories)
    for (const RandomCall& call : every_kind()) {
      check_shards(in(memory, call), indexed_geometry(in(memory, call)));
      if (HasFatalFailure()) return;
    }
}

// Kinds of one shape alone: permutations, and the numbers of multinomial, which has a launch for each row.
// Catches: a permutation of the shard, a row drawn by the first row's threads.
TEST(ShardsOfRandomTensors, OfPermutationsAndSamplesToo) {
  const RandomCall sampled = in({{46, 60}, {60, 1}}, call_of(RandomKind::kMultinomialUniform, c10::kFloat));
  std::vector<RandomCall> calls{sampled};
  for (auto dtype : {c10::kLong, c10::kInt, c10::kShort, c10::kFloat, c10::kHalf, c10::kDouble})
    calls.push_back(in({{600}, {1}}, call_of(RandomKind::kRandperm, dtype)));
  for (const RandomCall& call : calls) {
    check_shards(call, random_geometry(call, {1, 256}));
    check_shards(call, indexed_geometry(call));
  }
}

}  // namespace
}  // namespace lockstep
