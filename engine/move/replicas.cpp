// SPDX-License-Identifier: Apache-2.0
#include "engine/move/replicas.h"

#include <ATen/core/Tensor.h>

#include <cstring>

#include "engine/values/as_size.h"
#include "engine/world/share.h"

namespace lockstep {
namespace {

constexpr size_t kWorthIt = 1 << 14;  // bytes; of smaller ones the tensors themselves are as large

bool is_held(const at::Tensor& local, size_t holders) {
  return local.storage().use_count() > 1 || local.use_count() > holders;
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool has_several(const Spec& spec) {
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (!distributes(spec.placements()[as_size(d)]) && spec.mesh().size(d) > 1) return true;
  return false;
}

// The position of the first replica or term.
int64_t first_of(const Spec& spec, int64_t position) {
  auto coordinate = spec.mesh().coordinate(position);
  for (size_t d = 0; d < coordinate.size(); ++d)
    if (!distributes(spec.placements()[d])) coordinate[d] = 0;
  return spec.mesh().position(coordinate);
}

}  // namespace

void Replicas::settle(const Spec& spec, size_t output, size_t i, at::Tensor& local, size_t holders) {
  if (!local.defined() || !local.is_cpu() || local.nbytes() < kWorthIt || !has_several(spec) ||
      is_held(local, holders))
    return;
  auto& kept = kept_[{output, first_of(spec, comm_.positions[i])}];
  for (const auto* other : {&kept.first, &kept.last})
    if (other->defined() && !is_held(*other, holders + 1) && alike(local, *other)) {
      local = shared_copy(*other);
      return;
    }
  (kept.first.defined() ? kept.last : kept.first) = local;
}

}  // namespace lockstep
