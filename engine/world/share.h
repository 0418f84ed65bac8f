// SPDX-License-Identifier: Apache-2.0
// Replicas share storage until one of them is written, and never computation: libtorch's copy-on-write. Each
// rank's tensor has a storage of its own, so that views follow it; whatever asks for its memory to write, an
// operator or a user, gives it memory of its own first.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/per_rank.h"

namespace lockstep {

// A copy of the same form and strides.
// @pre nobody has an address in `tensor` to write to: the engine has just made it
at::Tensor shared_copy(const at::Tensor& tensor);

// n copies of one tensor, which may be anybody's.
PerRank<at::Tensor> shared_copies(const at::Tensor& tensor, size_t n);

}  // namespace lockstep
