// SPDX-License-Identifier: Apache-2.0
// Tensors as bits: what Worlds are checked by.
#pragma once
#include "engine/world/slab.h"

namespace lockstep {

// The same dtype, sizes and bits, NaNs and the signs of zeros included.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

// Writes the bits of `from` to `into`, which is of the same form. For small ones faster than copy_, which
// costs a dispatch.
void copy_bits(const Slab& into, const Slab& from);

// Fills with bits that no rank sends, but by accident.
void poison(const at::Tensor& tensor);
bool is_poisoned(const at::Tensor& tensor);
// Whether two tensors may have memory in common.
bool overlap(const at::Tensor& a, const at::Tensor& b);

}  // namespace lockstep
