// SPDX-License-Identifier: Apache-2.0
// Activation recompute: a block whose inner values are not kept for the backward pass, but computed again.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "engine/nn/module.h"

namespace lockstep {

struct CheckpointOptions {
  // The second run draws what the first drew, and moves no generator: neither Lockstep's nor libtorch's.
  bool preserve_rng_state = true;
};

// torch.utils.checkpoint.checkpoint(use_reentrant=True): the results of block(inputs), without the history of
// what is between; on the way back it runs again, with one, under the autocast of the first run. DTensors,
// plain tensors, or both. The block writes to nothing that it is given. Gradients go to `inputs` alone: a
// tensor that requires one and is reached otherwise, a module's parameter say, is an Error that names it; so
// is a gradient with a history of its own (create_graph), which torch would give without one.
std::vector<at::Tensor> checkpoint(
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> block,
    const std::vector<at::Tensor>& inputs, CheckpointOptions options = {});

// The same of every call of a module from now on, around whatever else stands around its calls (fully_shard,
// before or after). Gradients go to its inputs and to its parameters, so that a pass must be one that adds up
// gradients everywhere, backward(): autograd::grad, or backward with inputs, is an Error, as in torch; so is
// a parameter that has been written since the first run. torch's checkpoint_wrapper.
void checkpoint(nn::Module& module, CheckpointOptions options = {});

// Attached to a module: called in each pass that reaches its checkpoint, or that of a module that it is
// within, before that runs again.
struct BeforeSecondRun {
  std::function<void()> call;
};

// While alive, tensors stand for parameters of a module, as in one of its calls; where a checkpointed module
// within runs again they do so once more.
class StandIns {
 public:
  explicit StandIns(nn::Module& module) : module_(module) {}
  ~StandIns();
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;
  // @param paths of one parameter
  void set(const std::vector<std::string>& paths, const at::Tensor& value);

 private:
  struct Stood {
    std::vector<std::string> paths;
    at::Tensor was;
  };
  nn::Module& module_;
  std::vector<Stood> all_;
};

// In a block's first run: leaves `what` under this key for each of its second runs, which takes what was left
// under the key one after the other. Null: no more was left, or no block runs.
void leave_for_second_run(const void* key, std::shared_ptr<void> what);
std::shared_ptr<void> take_from_first_run(const void* key);

// Whether a block runs for the first time, and may run again.
bool is_first_run();
// Whether a block runs again, or its gradients are on their way back.
bool is_recomputing();

}  // namespace lockstep
