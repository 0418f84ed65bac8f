// SPDX-License-Identifier: Apache-2.0
#include "engine/world/slab.h"

#include <ATen/ATen.h>

#include "engine/values/as_size.h"

namespace lockstep {

int64_t Slab::numel() const {
  if (dim < 0) return of.numel();
  const auto sizes = of.sizes();
  int64_t n = length;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != as_size(dim)) n *= sizes[d];
  return n;
}

// Without at::narrow, which dispatches twice.
at::Tensor Slab::tensor() const {
  if (dim < 0) return of;
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(of.storage()),
                                                       of.key_set(), of.dtype());
  auto* impl = view.unsafeGetTensorImpl();
  c10::SmallVector<int64_t, 6> sizes(of.sizes());
  sizes[as_size(dim)] = length;
  impl->set_storage_offset(of.storage_offset() + start * of.stride(dim));
  impl->set_sizes_and_strides(sizes, of.strides());
  return view;
}

bool same_sizes(const Slab& a, const Slab& b) {
  if (a.of.dim() != b.of.dim()) return false;
  for (int64_t d = 0; d < a.of.dim(); ++d)
    if (a.size(d) != b.size(d)) return false;
  return true;
}

}  // namespace lockstep
