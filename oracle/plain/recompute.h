// SPDX-License-Identifier: Apache-2.0
// What a checkpoint of a Program is on one device.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::oracle {

using RunBlock = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& operands)>;

// The results of the block without a history; on the way back it runs again, on the operands as they are
// then. Throws Broken where that gives other bits, though the draws are restored.
std::vector<at::Tensor> recomputed(const RunBlock& run, const std::vector<at::Tensor>& operands,
                                   bool preserves_rng_state);

}  // namespace lockstep::oracle
