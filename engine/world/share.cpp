// SPDX-License-Identifier: Apache-2.0
#include "engine/world/share.h"

#include <ATen/ATen.h>
#include <c10/core/impl/COW.h>

namespace lockstep {

at::Tensor shared_copy(const at::Tensor& tensor) {
  auto storage = tensor.is_cpu() && tensor.nbytes() > 0
                     ? c10::impl::cow::lazy_clone_storage(*tensor.storage().unsafeGetStorageImpl())
                     : nullptr;
  if (storage == nullptr) return tensor.clone();
  auto copy = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), tensor.key_set(),
                                                       tensor.dtype());
  auto* impl = copy.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return copy;
}

PerRank<at::Tensor> shared_copies(const at::Tensor& tensor, size_t n) {
  PerRank<at::Tensor> copies{tensor.clone()};
  while (copies.size() < n) copies.push_back(shared_copy(copies.front()));
  return copies;
}

}  // namespace lockstep
