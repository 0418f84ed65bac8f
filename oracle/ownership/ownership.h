// SPDX-License-Identifier: Apache-2.0
// Who holds which elements, found by cutting lists of indices, and the global value of local tensors. Brute
// force on purpose: it must be obviously right, and shares nothing with the engine's Layout.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/values/reduction_order.h"
#include "engine/values/spec.h"
#include "oracle/ownership/share.h"

namespace lockstep::oracle {

// torch.chunk: the elements of `list` that fall to piece `which` of `pieces`.
Indices chunk_of(const Indices& list, int64_t pieces, int64_t which);

// What the rank at this mesh position holds: along each tensor dimension the list 0 … n-1, cut by one mesh
// dimension after another in the Spec's order; of all combinations, at last, the blocks that a RaggedShard
// gives it.
Share owned(const Spec& spec, int64_t position);
std::vector<int64_t> local_shape(const Spec& spec, int64_t position);
// Dense strides of a local tensor, its dimensions in the memory order of the whole one (of a dense copy of
// that, if its elements overlap or leave gaps), by libtorch's own rule; of what is the whole tensor, to the
// letter.
at::DimVector local_stride(at::IntArrayRef shape, at::IntArrayRef stride, at::IntArrayRef local_shape);
// Those of what a share of a tensor holds: the same, but one step where the local tensor is flat.
at::DimVector local_stride(const Share& share, at::IntArrayRef shape, at::IntArrayRef stride);

// What the rank at `position` holds of `global` (for Partial dimensions: of this term): fresh, dense, without
// history.
at::Tensor slice(const at::Tensor& global, const Spec& spec, int64_t position);
// One slice for each mesh position.
std::vector<at::Tensor> slices(const at::Tensor& global, const Spec& spec);

// Each position's local with what pends along the order's mesh dimensions reduced: the same tensor at all
// positions of a group. @pre the order is valid for these dimensions.
std::vector<at::Tensor> reduce(std::vector<at::Tensor> locals, const Spec& spec, const ReductionOrder& order);

// Two positions that should hold the same bits and do not, or a local that does not fit.
struct Disagreement {
  int64_t position = 0, reference = 0;
  std::vector<int64_t> index;  // global; empty if shape or dtype are wrong
  std::string text;
};
struct Assembly {
  at::Tensor global;  // undefined if a local does not fit; else from the first of each set of replicas
  std::optional<Disagreement> disagreement;
};

// The global value of local tensors, one for each mesh position, for any placements; strides are the Spec's
// (contiguous where those overlap). All replicas are compared as bits. What pends is folded from left to
// right, ranks ascending, in the Spec's dtype, or in the order given.
Assembly assemble(const std::vector<at::Tensor>& locals, const Spec& spec);
Assembly assemble(const std::vector<at::Tensor>& locals, const Spec& spec, const ReductionOrder& order);

}  // namespace lockstep::oracle
