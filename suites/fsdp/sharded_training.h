// SPDX-License-Identifier: Apache-2.0
// A Sharding in training: under fully_shard on its mesh, or the same modules on one device.
#pragma once
#include <optional>

#include "oracle/plain/hosted_source.h"
#include "oracle/random/random_simulation.h"
#include "suites/fsdp/sharded_fault.h"
#include "suites/train/optimizer.h"
#include "suites/train/plain_unit.h"

namespace lockstep::fsdp {
class DBuffer;
}

namespace lockstep::suites {

using Batches = std::vector<std::vector<at::Tensor>>;  // [step][pass]: examples by features

class ShardedTraining {
 public:
  // @param world of the mesh; null: one device
  ShardedTraining(const Sharding& sharding, WorldPtr world, const ShardedFault* fault = nullptr);

  // First values from the stream, where there are none.
  void init();
  Batches batches() const;
  // The gradients of a step are those of the mean of the squares of what the model gives, added up over its
  // passes. On one device they are added up where fully_shard does: after a pass that reduces, unit by unit.
  struct Result {
    std::vector<at::Tensor> losses, norms;
  };
  Result run(const Batches& batches);

  // The outermost first, then in the order in which they run.
  const std::vector<FSDPModule>& units() const { return units_; }
  nn::Module& model() { return *model_; }
  OptimizerState optimizer() const { return optimizer_->state(); }
  // What must hold of what was asked for, whatever the values: between forward and backward units are
  // gathered or cut, and after it cut; tensors lie in the order asked for; no padding was written, no block
  // is cut. Empty: it does.
  std::string untidy(const Sharding& asked) const;
  // The bytes that gathering each unit once moves: what ranks lack of its buffer.
  int64_t bytes_of_a_gather() const;

 private:
  void place(WorldPtr world);
  void stay_plain();
  std::vector<nn::Module*> modules_of(const std::vector<std::string>& paths) const;
  void give_values();
  nn::Tensors ignored(const Sharding& asked) const;  // at most one
  void set_frozen(const nn::Tensors& parameters, bool on) const;
  std::string untidy(const Sharding& asked, const fsdp::DBuffer& buffer) const;
  void note_gathered(const char* when, bool root, bool others);
  void note_prefetched(size_t i);
  at::Tensor backward(const at::Tensor& x);
  at::Tensor evaluate(const at::Tensor& x);
  ShardedScene scene() { return {sharding_, *model_, units_, step_, pass_}; }

  Sharding sharding_;  // with the fault's
  const ShardedFault* fault_;
  oracle::SimulatedSource simulated_;
  oracle::HostedSource hosted_{simulated_};
  std::optional<MeshInWorld> mesh_;
  std::shared_ptr<nn::Module> model_;
  std::vector<std::shared_ptr<nn::Module>> blocks_;
  std::vector<FSDPModule> units_;
  PlainUnits plain_;
  std::optional<Optimizer> optimizer_;
  int64_t step_ = 0, pass_ = 0;
  bool prefetches_ = true;  // each unit but the outermost the next one
  std::string unlike_;      // where units were not gathered, or were, as asked for: the first time
};

}  // namespace lockstep::suites
