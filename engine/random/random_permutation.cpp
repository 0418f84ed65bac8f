// SPDX-License-Identifier: Apache-2.0
#include "engine/random/random_permutation.h"

#include <ATen/EmptyTensor.h>

#include "engine/random/forged_words.h"
#include "engine/random/random.h"
#include "engine/random/random_check.h"
#include "engine/random/random_walk.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "kernels/permutation.h"

namespace lockstep {
namespace {

// The keys as the sort compares them.
std::vector<uint64_t> drawn_keys(const RandomCall& keys, const RandomState& state,
                                 const RandomGeometry& geometry, int bits) {
  const at::Tensor drawn = at::detail::empty_strided_cpu(keys.shape, {1}, keys.dtype);
  fill_local(keys, owned_whole(keys.shape), state, geometry, drawn);
  std::vector<uint64_t> result;
  with_type_of<int32_t, int64_t>(keys.dtype, [&](auto type) {
    using T = decltype(type);
    const T* data = drawn.const_data_ptr<T>();
    for (int64_t i = 0; i < keys.shape[0]; ++i)
      result.push_back(sort_key(data[i], bits, static_cast<int>(8 * sizeof(T))));
  });
  return result;
}

std::vector<int64_t> device_permutation(const RandomCall& call, const RandomState& state,
                                        const RandomGeometry& geometry) {
  const int bits = permutation_key_bits(call.shape[0]);
  const auto keys = drawn_keys(permutation_keys(call), state, geometry, bits);
  auto order = stable_order(keys);
  shuffle_equal_keys(keys, state.seed, (state.offset + geometry.shuffle_offset) / 4, order,
                     block_function(state.words));
  return order;
}

std::vector<int64_t> indexed_permutation(const RandomCall& call, const RandomState& state) {
  RandomCall keys = call;
  keys.kind = RandomKind::kRandomBits;
  keys.dtype = c10::kLong;
  return stable_order(drawn_keys(keys, state, indexed_geometry(keys), 64));
}

// As the stock copy of an integer into the dtype.
template <class T>
T converted(int64_t value) {
  if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>)
    return static_cast<T>(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

}  // namespace

void fill_permutation(const RandomCall& call, const Owned& owned, const RandomState& state,
                      const RandomGeometry& geometry, const at::Tensor& out) {
  const auto order =
      geometry.indexed ? indexed_permutation(call, state) : device_permutation(call, state, geometry);
  const bool known = with_number_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    T* data = out.mutable_data_ptr<T>();
    for_each_run(owned, call.shape, {1}, out.strides().vec(), [&](const StreamRun& run) {
      for (int64_t j = run.first; j < run.last; ++j)
        data[run.offset + (j - run.first) * run.stride] = converted<T>(order[static_cast<size_t>(j)]);
    });
  });
  LOCKSTEP_CHECK(known, "[", op_name(call.kind), "] does not fill a tensor of ", dtype_name(call.dtype), ".");
}

}  // namespace lockstep
