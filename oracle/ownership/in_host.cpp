// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/in_host.h"

#include <ATen/ATen.h>

namespace lockstep::oracle {

at::Tensor moved(const at::Tensor& tensor, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto made = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
  if (tensor.numel() == 0) return made;
  // All that lies between the first element and the last: strides may name an element twice, or leave gaps.
  int64_t extent = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) extent += (tensor.size(d) - 1) * tensor.stride(d);
  const auto all = [extent](const at::Tensor& t) {
    return t.detach().as_strided({extent}, {1}, t.storage_offset());
  };
  all(made).copy_(all(tensor));
  return made;
}

at::Tensor in_host(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.is_cpu() ? tensor : moved(tensor, at::kCPU);
}

at::Tensor on_mesh(const DeviceMesh& mesh, const at::Tensor& tensor) {
  return mesh.device_type() == c10::kCPU ? tensor : moved(tensor, mesh.device_type());
}

}  // namespace lockstep::oracle
