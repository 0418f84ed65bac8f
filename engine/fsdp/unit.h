// SPDX-License-Identifier: Apache-2.0
// Unit: the parameters that one call of fully_shard has put into a DBuffer, and when they are gathered, cut,
// and their gradients reduced.
#pragma once
#include <optional>

#include "engine/fsdp/reduce.h"
#include "engine/nn/module.h"

namespace lockstep::fsdp {

struct UnitParameter {
  std::vector<std::string> paths;  // from the module; several for one that is shared
  at::Tensor sharded, whole;       // leaves
};

class Unit;

// The units of one model, of which one at a time reduces: what they wait for in turn.
struct Lane {
  Unit* reducing = nullptr;
};

struct UnitSettings {
  bool reshard_after_forward = true, reshard_after_backward = true;
  bool requires_gradient_sync = true;
  double gradient_divide_factor = 1;
  std::vector<Unit*> forward_prefetch, backward_prefetch;
};

class Unit {
 public:
  // @param buffer null: the module has no parameters of its own. They are those of the buffer, in its order.
  Unit(nn::Module& module, std::unique_ptr<DBuffer> buffer, std::vector<UnitParameter> parameters);

  // Waits for what has begun and nobody waited for.
  ~Unit();

  nn::Module& module() const { return module_; }
  const DBuffer* buffer() const { return buffer_.get(); }

  // Law: the module's parameters are then whole and have the values of the shards, also where these were
  // written while they were whole.
  void unshard();
  void begin_unshard();
  void reshard();

  // Around a call of the module.
  void before_forward(nn::Tensors& inputs);
  void after_forward(at::Tensor& output);

  // Waits for the reduction that this unit has begun.
  void wait_for_reduction();

  UnitSettings settings;
  std::shared_ptr<Lane> lane = std::make_shared<Lane>();

 private:
  void before_backward();
  void after_backward();
  void finish_backward();
  void forget_failed_pass();
  void show(at::Tensor UnitParameter::*which);
  void check_shown(at::Tensor UnitParameter::*which) const;
  bool is_stale() const;

  nn::Module& module_;
  const std::unique_ptr<DBuffer> buffer_;
  std::vector<UnitParameter> parameters_;
  std::vector<int64_t> versions_;     // of the shards when they were gathered
  std::optional<Work> gathering_;     // begun
  std::optional<Reducing> reducing_;  // begun
  std::vector<at::Tensor> reduced_;   // in this backward pass, by parameter; undefined: none yet
  int64_t backward_pass_ = -1;        // in which finish_backward will be called
};

}  // namespace lockstep::fsdp
