// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/in_host.h"

#include <ATen/ATen.h>

namespace lockstep::oracle {

at::Tensor moved(const at::Tensor& tensor, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto options = tensor.options().device(device);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  // All that lies between the first element and the last: strides may name an element twice, or leave gaps. A
  // kernel may take another path where it does not begin at an aligned address.
  constexpr int64_t kAligned = 16;
  int64_t extent = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) extent += (tensor.size(d) - 1) * tensor.stride(d);
  const auto size = static_cast<int64_t>(tensor.element_size());
  const int64_t lead = tensor.storage_offset() * size % kAligned / size;
  const auto memory = at::empty({lead + extent}, options);
  memory.narrow(0, lead, extent).copy_(tensor.detach().as_strided({extent}, {1}, tensor.storage_offset()));
  // Not a view, which autograd would let nobody write to.
  return at::empty({0}, options).set_(memory.storage(), lead, tensor.sizes(), tensor.strides());
}

at::Tensor in_host(const at::Tensor& tensor) {
  return tensor.defined() ? on_device(at::kCPU, tensor) : tensor;
}

std::vector<at::Tensor> in_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> here;
  for (const at::Tensor& t : tensors) here.push_back(in_host(t));
  return here;
}

at::Tensor on_device(c10::Device device, const at::Tensor& tensor) {
  return tensor.device().type() == device.type() ? tensor : moved(tensor, device);
}

at::Tensor on_mesh(const DeviceMesh& mesh, const at::Tensor& tensor) {
  return on_device(mesh.device_type(), tensor);
}

std::vector<at::Tensor> on_mesh(const DeviceMesh& mesh, const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& t : tensors) there.push_back(on_mesh(mesh, t));
  return there;
}

}  // namespace lockstep::oracle
