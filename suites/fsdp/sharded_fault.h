// SPDX-License-Identifier: Apache-2.0
// A mistake planted in a training of the suite `fsdp`, on its mesh alone, or in a plan of the suite
// `planner`: what a user of fully_shard does wrong, or what it would do wrong itself.
#pragma once
#include "engine/fsdp/fully_shard.h"
#include "suites/fsdp/sharding.h"

namespace lockstep::suites {

// The training as a fault finds it.
struct ShardedScene {
  const Sharding& sharding;
  nn::Module& model;
  const std::vector<FSDPModule>& units;  // the root's first, then those of the blocks
  int64_t step = 0, pass = 0;
};

// Null functions change nothing.
struct ShardedFault {
  WorldPtr (*world)(WorldPtr world) = nullptr;     // around that of the mesh
  void (*plan)(fsdp::BufferPlan& plan) = nullptr;  // of the suite `planner`
  void (*sharding)(Sharding& sharding) = nullptr;
  bool second_runs_draw_anew = false;                   // of blocks that run again on the way back
  void (*placed)(const ShardedScene& scene) = nullptr;  // before the first step
  void (*input)(const ShardedScene& scene, at::Tensor& x) = nullptr;
  void (*before_backward)(const ShardedScene& scene, at::Tensor& loss) = nullptr;
  void (*after_backward)(const ShardedScene& scene) = nullptr;
  void (*after_update)(const ShardedScene& scene) = nullptr;
};

}  // namespace lockstep::suites
