// SPDX-License-Identifier: Apache-2.0
// PyTorch's parallel styles (torch.distributed.tensor.parallel), as plans of a module and one mesh dimension:
// add them up with +=. Paths are regular expressions, as in any plan.
#pragma once
#include "engine/plan/plan.h"

namespace lockstep {

// ColwiseParallel of a Linear: weight, and bias where there is one, cut by output features. The output stays
// cut by its last dimension unless told otherwise.
ParallelPlan colwise_parallel(const std::string& path, const std::string& mesh_dim,
                              Placement input = Replicate{}, std::optional<Placement> output = std::nullopt,
                              bool bias = false);
// RowwiseParallel of a Linear without bias: weight cut by input features; the terms are added into `output`.
ParallelPlan rowwise_parallel(const std::string& path, const std::string& mesh_dim,
                              Placement output = Replicate{}, Placement input = Shard{-1});
// RowwiseParallel of an Embedding: rows of the table cut; the terms (one of them not zero) are added into
// `output`.
ParallelPlan vocabulary_parallel(const std::string& path, const std::string& mesh_dim,
                                 Placement output = Replicate{});
// SequenceParallel: norms and dropout on a piece of the sequence; parameters are replicated.
ParallelPlan sequence_parallel(const std::string& path, const std::string& mesh_dim, int64_t dim = 1);
// Experts (nn/experts.h): each rank has some. Their rows come to it and go by themselves.
ParallelPlan expert_parallel(const std::string& path, const std::string& mesh_dim);
// fully_shard of modules, as phases: their parameters wherever the planner cuts them, and whole while a
// module runs (veScale's INIT and RUN). Name inner modules and outer ones, each in a plan of its own.
ParallelPlan fully_sharded(const std::string& path, const std::string& mesh_dim);
// PrepareModuleInput and PrepareModuleOutput: only the inputs, in their order, or the output are placed.
ParallelPlan prepare_module_input(const std::string& path, const std::string& mesh_dim,
                                  const std::vector<std::optional<Placement>>& inputs);
ParallelPlan prepare_module_output(const std::string& path, const std::string& mesh_dim, Placement output);

}  // namespace lockstep
