// SPDX-License-Identifier: Apache-2.0
// Local tensors of one size on every rank, where collectives that know no others take them: at the door
// alone, since within the engine padding could be read as data.
#pragma once
#include "engine/tensor/dtensor_impl.h"

namespace lockstep {

// Of each dimension the most that a rank holds.
std::vector<int64_t> padded_shape(const Spec& spec);

// Differentiable, both. Law: unpadded(padded(locals)) has the bits of `locals`, whatever is written to the
// padding. The locals with zeros after the last index of each dimension; those that are as large are
// themselves.
PerRank<at::Tensor> padded(PerRank<at::Tensor> locals, const Spec& spec);
// Views of what is no padding. Throws Error naming the rank whose local has another shape.
PerRank<at::Tensor> unpadded(PerRank<at::Tensor> locals, const Spec& spec, const Comm& comm);

}  // namespace lockstep
