// SPDX-License-Identifier: Apache-2.0
// The digest by which engine and oracle recognise each other's tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/timeline.h"

namespace lockstep {

// 128 bits of dtype, shape and element bytes in logical row-major order; strides do not matter. Tensors that
// differ in one element always have different digests: every step is a bijection of the state. Not
// cryptographic. An undefined tensor has Digest{}.
Digest digest(const at::Tensor& tensor);

// What the locals of a distributed tensor show, one for each position.
TensorRecord record(SpecPtr spec, const std::vector<at::Tensor>& locals);

}  // namespace lockstep
