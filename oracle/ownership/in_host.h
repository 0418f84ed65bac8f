// SPDX-License-Identifier: Apache-2.0
// Values in the host's memory, where the oracle looks at them, wherever they were computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/values/device_mesh.h"

namespace lockstep::oracle {

// The same elements with the same sizes and strides, in memory of its own there.
at::Tensor moved(const at::Tensor& tensor, c10::Device device);

// The tensor itself where it is there already, or is undefined.
at::Tensor in_host(const at::Tensor& tensor);

std::vector<at::Tensor> in_host(const std::vector<at::Tensor>& tensors);

// The tensor itself where it is there already.
at::Tensor on_device(c10::Device device, const at::Tensor& tensor);
// Where the mesh has its tensors.
at::Tensor on_mesh(const DeviceMesh& mesh, const at::Tensor& tensor);
std::vector<at::Tensor> on_mesh(const DeviceMesh& mesh, const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::oracle
