// SPDX-License-Identifier: Apache-2.0
// The model of a Sharding, before anything is sharded.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "engine/nn/module.h"
#include "suites/fsdp/sharding.h"

namespace lockstep::suites {

using Blocks = std::vector<std::shared_ptr<nn::Module>>;

// The model, and its blocks: without values.
std::pair<std::shared_ptr<nn::Module>, Blocks> make_model(const Sharding& sharding);

}  // namespace lockstep::suites
