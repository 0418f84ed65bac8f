// SPDX-License-Identifier: Apache-2.0
// torch.distributed.tensor.experimental.local_map: a function of plain tensors, on those that each rank
// holds.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "engine/tensor/dtensor.h"

namespace lockstep {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// How an input is to lie: as it does, unless `placements` says; `grad_placements` as to_local's.
struct LocalMapInput {
  std::optional<Placements> placements = std::nullopt;
  std::vector<int64_t> order = {};
  Placements grad_placements = {};
};

// What from_local is to make of the ranks' results; one that is cut unevenly needs its global shape.
struct LocalMapResult {
  Placements placements;
  std::vector<int64_t> order = {};
  std::optional<std::vector<int64_t>> shape = std::nullopt;
  std::optional<std::vector<int64_t>> stride = std::nullopt;
};

// The function of DTensors that calls `function` once for each hosted rank, in mesh order, with the rank's
// local tensors, and makes one DTensor of what all ranks give for each of `results`. Inputs that are plain
// are passed as they are; `inputs`: one for each, or none. Differentiable; under RaggedShard locals are flat.
// Throws Error, naming the input, the result or the rank, where none of the inputs is a DTensor, they are on
// two meshes, one lies otherwise than `inputs` says and `redistribute_inputs` is not set, or a rank gives
// another number of results. What `function` computes is its own affair: where results of ranks are
// replicas they must agree in bits (from_local's check), and what Partial says is not checked.
TensorFunction local_map(TensorFunction function, std::vector<LocalMapResult> results,
                         std::vector<LocalMapInput> inputs = {}, bool redistribute_inputs = false);

}  // namespace lockstep
