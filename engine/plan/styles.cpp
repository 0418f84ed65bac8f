// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/styles.h"

#include "engine/values/error.h"

namespace lockstep {

ParallelPlan prepare_module_input(const std::string& path, const std::string& mesh_dim,
                                  const std::vector<std::optional<Placement>>& inputs) {
  ParallelPlan plan;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) plan.redistribute(concat(path, ".<in>:", i), std::nullopt, {*inputs[i]}, {mesh_dim});
  return plan;
}

ParallelPlan prepare_module_output(const std::string& path, const std::string& mesh_dim, Placement output) {
  return ParallelPlan().redistribute(path + ".<out>", std::nullopt, {std::move(output)}, {mesh_dim});
}

ParallelPlan colwise_parallel(const std::string& path, const std::string& mesh_dim, Placement input,
                              std::optional<Placement> output, bool bias) {
  ParallelPlan plan;
  plan.shard(path + ".weight", {Shard{0}}, {mesh_dim});
  if (bias) plan.shard(path + ".bias", {Shard{0}}, {mesh_dim});
  plan += prepare_module_input(path, mesh_dim, {std::move(input)});
  if (output) plan += prepare_module_output(path, mesh_dim, *output);
  return plan;
}

ParallelPlan rowwise_parallel(const std::string& path, const std::string& mesh_dim, Placement output,
                              Placement input) {
  ParallelPlan plan;
  plan.shard(path + ".weight", {Shard{1}}, {mesh_dim});
  plan += prepare_module_input(path, mesh_dim, {std::move(input)});
  return plan += prepare_module_output(path, mesh_dim, std::move(output));
}

ParallelPlan vocabulary_parallel(const std::string& path, const std::string& mesh_dim, Placement output) {
  ParallelPlan plan;
  plan.shard(path + ".weight", {Shard{0}}, {mesh_dim});
  plan += prepare_module_input(path, mesh_dim, {Replicate{}});
  return plan += prepare_module_output(path, mesh_dim, std::move(output));
}

ParallelPlan sequence_parallel(const std::string& path, const std::string& mesh_dim, int64_t dim) {
  return prepare_module_input(path, mesh_dim, {Shard{dim}});
}

ParallelPlan expert_parallel(const std::string& path, const std::string& mesh_dim) {
  ParallelPlan plan;
  for (const auto* weight : {".gate_proj", ".up_proj", ".down_proj"})
    plan.shard(path + weight, {Shard{0}}, {mesh_dim});
  return plan;
}

ParallelPlan fully_sharded(const std::string& path, const std::string& mesh_dim) {
  return ParallelPlan()
      .shard(path + ".*", {RaggedShard{}}, {mesh_dim})
      .shard(path + ".*", {Replicate{}}, {mesh_dim}, PlanPhase::kRun);
}

}  // namespace lockstep
