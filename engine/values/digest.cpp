// SPDX-License-Identifier: Apache-2.0
#include "engine/values/digest.h"

#include <cstring>

namespace lockstep {
namespace {

// Two lanes with different odd multipliers; x -> (x ^ word) * k, xor-shifted, is a bijection for each word.
struct State {
  uint64_t lo = 0x243f6a8885a308d3, hi = 0x13198a2e03707344;

  void add(uint64_t word) {
    lo = (lo ^ word) * 0x9fb21c651e98df25;
    lo ^= lo >> 32;
    hi = (hi ^ word) * 0xd6e8feb86659fd93;
    hi ^= hi >> 29;
  }

  void add(const unsigned char* bytes, size_t count) {
    uint64_t word = 0;
    for (; count >= sizeof word; bytes += sizeof word, count -= sizeof word) {
      std::memcpy(&word, bytes, sizeof word);
      add(word);
    }
    if (count == 0) return;
    word = 0;
    std::memcpy(&word, bytes, count);
    add(word);
  }
};

}  // namespace

Digest digest(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  State state;
  state.add(static_cast<uint64_t>(tensor.scalar_type()));
  state.add(static_cast<uint64_t>(tensor.dim()));
  for (const auto n : tensor.sizes()) state.add(static_cast<uint64_t>(n));
  const auto dense = tensor.is_cpu() && tensor.is_contiguous() ? tensor : tensor.detach().cpu().contiguous();
  state.add(static_cast<const unsigned char*>(dense.const_data_ptr()), dense.nbytes());
  state.add(0);
  state.add(0);
  return {state.lo, state.hi};
}

TensorRecord record(SpecPtr spec, const std::vector<at::Tensor>& locals) {
  TensorRecord result{.spec = std::move(spec), .digests = {}, .strides = {}};
  result.digests.reserve(locals.size());
  bool dense = true;
  for (const auto& local : locals) {
    result.digests.push_back(digest(local));
    dense = dense && local.is_non_overlapping_and_dense();
  }
  if (!dense)
    for (const auto& local : locals) result.strides.push_back(local.strides().vec());
  return result;
}

}  // namespace lockstep
