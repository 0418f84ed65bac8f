// SPDX-License-Identifier: Apache-2.0
#include "engine/move/replicas.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <map>

#include "engine/values/as_size.h"
#include "engine/world/share.h"

namespace lockstep {
namespace {

constexpr size_t kWorthIt = 1 << 14;  // bytes; of smaller ones the tensors themselves are as large

// Whether someone may have an address in it: who holds the storage, or the tensor beside the op's results and
// the locals made of them.
bool is_held(const at::Tensor& local) {
  return local.storage().use_count() > 1 || local.use_count() > 2;
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool has_replicas(const Spec& spec) {
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (is_replicate(spec.placements()[as_size(d)]) && spec.mesh().size(d) > 1) return true;
  return false;
}

// The position of the first replica.
int64_t first_of(const Spec& spec, int64_t position) {
  auto coordinate = spec.mesh().coordinate(position);
  for (size_t d = 0; d < coordinate.size(); ++d)
    if (is_replicate(spec.placements()[d])) coordinate[d] = 0;
  return spec.mesh().position(coordinate);
}

}  // namespace

void share_replicas(PerRank<at::Tensor>& locals, const Spec& spec, const Comm& comm) {
  if (!locals.front().is_cpu() || locals.size() == 1 || locals.front().nbytes() < kWorthIt ||
      !has_replicas(spec))
    return;
  std::map<int64_t, size_t> firsts;
  for (size_t i = 0; i < locals.size(); ++i) {
    const auto [first, fresh] = firsts.emplace(first_of(spec, comm.positions[i]), i);
    if (fresh) continue;
    auto& shared = locals[first->second];
    if (!is_held(locals[i]) && !is_held(shared) && alike(locals[i], shared))
      locals[i] = shared_copy(shared);
  }
}

}  // namespace lockstep
