// SPDX-License-Identifier: Apache-2.0
// What a ParallelPlan does to a model: its parameters become DTensors, and its modules get the hooks that the
// rows name. veScale's parallelize(model, plan).
#pragma once
#include "engine/fsdp/fully_shard.h"
#include "engine/nn/module.h"
#include "engine/plan/gradient_buckets.h"
#include "engine/plan/plan.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {

struct ParallelizeOptions {
  // Where rows say of all parameters of a module ("*") that they are Shard(0) along one mesh dimension from
  // the start, or G, wherever it fits, and Replicate while it runs, they lie in one buffer and are gathered
  // together, by fully_shard; false: tensor by tensor, anew in each call. Law: the bits of a training are the
  // same, where gradients pend along that mesh dimension alone, and no input of the module is used outside of
  // it, too, of which fully_shard adds up the module's own gradients first.
  bool in_buffers = true;
  // Of these buffers; mesh dimension, placements and ignored parameters are what the plan says.
  FullyShardOptions buffers = {};
  int64_t bucket_bytes = 25 << 20;  // of gradients that rows annotate, in one exchange
};

// Of a model whose plan annotates gradients, attached to it: model.attached<PlannedGradients>().
struct PlannedGradients {
  std::vector<GradientBuckets> buckets;  // of each order and list of mesh dimensions
  // GradientBuckets' of all.
  void set_requires_gradient_sync(bool on) {
    for (auto& each : buckets) each.set_requires_gradient_sync(on);
  }
  void forget() {
    for (auto& each : buckets) each.forget();
  }
};

// Applies all rows: of the phases init and run to parameters and buffers (what no row speaks of is
// replicated), then the others in their order, each as a hook whose text is the row's action (Module::hooks).
// A row that names a tensor goes before "*", and "*" of a module before that of those around it. What a hook
// redistributes: every row as if by itself, along its mesh dimensions one after another; together where at
// most one of them adds up. An input that is undefined passes. Gradients go back by the duals of what the way
// forward did; a row of backward_pre or backward_post redistributes them before that.
//
// Gradients that a row annotates pend along its mesh dimensions while a backward pass runs, and are added up
// when it ends (GradientBuckets).
//
// Throws Error, and has changed nothing then, for a row that no module matches, for a parameter, buffer, mesh
// or tensor dimension that is not there, for two rows that say of one tensor and phase where it is to be
// along one mesh dimension, for what several modules share and only one of them has in its buffer, and for
// what is to lie in two, or to move along other mesh dimensions while its buffer is gathered; and what
// fully_shard throws, when parameters have been placed. A call throws where an input is a plain tensor, is
// not there, or is not `from`.
void parallelize(nn::Module& model, const MeshInWorld& mesh, const ParallelPlan& plan,
                 const ParallelizeOptions& options = {});

}  // namespace lockstep
