// SPDX-License-Identifier: Apache-2.0
// Parallel plans as values: where parameters go, by path, and what the hooks of a module redistribute.
// torch: distribute_module, parallelize_module, ColwiseParallel, RowwiseParallel, SequenceParallel.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/nn/module.h"
#include "engine/tensor/dtensor.h"

namespace lockstep::nn {

// `*` stands for any run of characters, dots included; the whole path must match.
bool matches(std::string_view pattern, std::string_view path);

struct ParameterPlacement {
  std::string pattern;  // of the path of a parameter or buffer
  Placements placements;
};

// Makes every parameter and buffer a DTensor: placed by the first pattern that matches its path, else
// replicated; what layers share, by the first that matches any of its paths, and two that differ are an
// Error. A parameter without values yet (on the meta device) becomes shards without values: see
// reset_parameters. A pattern that matches nothing is an Error that names it.
void distribute_module(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table);

// The same by a function: where each parameter and buffer goes, asked in the order of parameters_with_paths
// and then of buffers_with_paths; none: it stays as it is.
using PlacementsOf =
    std::function<std::optional<Placements>(const std::vector<std::string>& paths, bool is_parameter)>;
void distribute_each(Module& module, const MeshInWorld& mesh, const PlacementsOf& placements_of);

// What distribute_module makes of one plain buffer. One without values gets its first ones.
at::Tensor distributed_buffer(Module& module, std::string_view path, const MeshInWorld& mesh,
                              const Placements& placements);

// What happens to one module along one mesh dimension. Negative dimensions count from the end of the tensor.
struct ParallelStyle {
  Named<Placement> tensors;                      // own parameters and buffers, by name
  std::vector<std::optional<Placement>> inputs;  // redistributed to these before forward
  std::optional<Placement> output;               // redistributed to this after forward
};

// Linear: weight and bias cut by output features. The output stays cut by its last dimension unless told
// otherwise.
ParallelStyle colwise_parallel(Placement input = Replicate{}, std::optional<Placement> output = std::nullopt,
                               bool bias = false);
// Linear without bias: weight cut by input features; the terms are added into `output`.
ParallelStyle rowwise_parallel(Placement output = Replicate{}, Placement input = Shard{-1});
// Embedding: rows of the table cut; the terms (one of them not zero) are added into `output`.
ParallelStyle vocabulary_parallel(Placement output = Replicate{});
// Norms and dropout on a piece of the sequence; parameters are replicated.
ParallelStyle sequence_parallel(int64_t dim = 1);
// Experts (nn/experts.h): each rank has some. Their rows come to it and go by themselves.
ParallelStyle expert_parallel();
// No parameters of its own: only its inputs and output are placed.
ParallelStyle placed(std::vector<std::optional<Placement>> inputs,
                     std::optional<Placement> output = std::nullopt);

struct ParallelPlan {
  std::string pattern;  // of the path of a module
  ParallelStyle style;
};

// Applies the first style whose pattern matches to each module along `mesh_dim`; all else is replicated. What
// other mesh dimensions do to inputs and outputs is left alone.
void parallelize_module(Module& module, const MeshInWorld& mesh, std::string_view mesh_dim,
                        const std::vector<ParallelPlan>& plan);

}  // namespace lockstep::nn
