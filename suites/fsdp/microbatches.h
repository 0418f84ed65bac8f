// SPDX-License-Identifier: Apache-2.0
// One device that takes what the ranks take, one microbatch after the other, and adds up their gradients in
// the order that fully_shard declares: for each rank its passes, then along fsdp, then along the other mesh
// dimensions.
#pragma once
#include <string>

#include "suites/fsdp/sharded_training.h"

namespace lockstep::suites {

// Whether one device can: nothing draws in a forward pass, each gradient is added up as terms of ranks, and
// no unit is called twice or adds up the gradients of an input that others have, too.
bool has_microbatches(const Sharding& sharding);

// Law: where it can, its parameters and its last gradients have the bits of the mesh's; no reduction is
// explained. Empty: they have.
// @param starts the parameters before the first step
// @param whole the batches of one device
// @param trained that of the mesh, at its end
std::string unlike_microbatches(const Sharding& sharding, const std::vector<at::Tensor>& starts,
                                const Batches& whole, ShardedTraining& trained);

}  // namespace lockstep::suites
