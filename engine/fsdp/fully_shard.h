// SPDX-License-Identifier: Apache-2.0
// fully_shard: parameters that are cut until a module needs them. torch.distributed.fsdp.fully_shard (FSDP2)
// on RaggedShards and one DBuffer a module (veScale-FSDP).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/fsdp/mixed_precision.h"
#include "engine/fsdp/planner.h"
#include "engine/fsdp/reshard.h"
#include "engine/nn/module.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {

namespace fsdp {
class HeldMemory;
class Unit;
}  // namespace fsdp

struct FullyShardOptions {
  // Name of the mesh dimension that cuts parameters; empty: the last. Along the others they stay as they are,
  // whole (then gradients are added up along these, too, as in HSDP) or cut by a plan (engine/plan).
  std::string mesh_dim = {};
  ReshardAfterForward reshard_after_forward = true;
  // Parameters stay in their dtype while they are cut, and so do the gradients that they are given.
  MixedPrecisionPolicy mp_policy = {};
  // By path from the module, and parameter: of how many elements a block is that no rank cuts, as block-wise
  // optimizers need it; null: one.
  std::function<int64_t(std::string_view path, const at::Tensor& parameter)> orig_param_policy = {};
  // Where it says Shard(0), no rank has a part of a row; where it is null or says nothing, a parameter is cut
  // wherever it fits (FSDP2: by rows, too). Which rank has how many rows is the planner's to say, not
  // chunk's. Any other placement is an Error: a shard is a run of memory.
  std::function<std::optional<Placement>(const at::Tensor& parameter)> shard_placement_fn = {};
  fsdp::Order order = fsdp::Order::kDefault;    // in which tensors lie in the buffer
  std::vector<at::Tensor> ignored_params = {};  // left as they are
};

// What FSDPModule::unshard has begun.
class UnshardHandle {
 public:
  explicit UnshardHandle(std::shared_ptr<fsdp::Unit> unit) : unit_(std::move(unit)) {}
  // The parameters are whole when it returns, unless they have been cut by hand since.
  void wait();

 private:
  std::shared_ptr<fsdp::Unit> unit_;
};

// A module under fully_shard: FSDPModule's methods. A handle, which must not outlive the module.
class FSDPModule {
 public:
  explicit FSDPModule(std::shared_ptr<fsdp::Unit> unit) : unit_(std::move(unit)) {}
  const std::shared_ptr<fsdp::Unit>& unit() const { return unit_; }
  // Of its modules, as nn::Module::parameters().
  std::vector<at::Tensor> parameters() const;

  // Gathers the parameters, and cuts them again. Between forward and backward of a module that reshards
  // neither is needed. `async_op`: begins to gather, and whoever needs them first waits: the handle, or a
  // call of the module.
  UnshardHandle unshard(bool async_op = false);
  void reshard();
  // false: gradients stay whole terms on each rank, and are added up there, until a backward pass with true
  // (accumulation without communication); zero_grad does not see them. Of this module and those within it
  // that are sharded, or it alone.
  void set_requires_gradient_sync(bool requires_sync, bool recurse = true);
  // false: on a mesh of several dimensions (HSDP) gradients are reduced to shards, and added up there, but
  // not over replicas, until a backward pass with true, which does that once; zero_grad does not see them.
  // (A gradient that comes as a sum of all ranks is one already.)
  void set_requires_all_reduce(bool requires_all_reduce, bool recurse = true);
  void set_reshard_after_forward(bool reshard, bool recurse = true);
  void set_reshard_after_backward(bool reshard, bool recurse = true);
  // By what gradients are divided, once, after they are added up. 1 unless set: the loss is that of all
  // ranks, and so are its gradients. FSDP2's mean over ranks of their own losses is the number of ranks here
  // and the sum of those losses.
  void set_gradient_divide_factor(double factor, bool recurse = true);
  // Whose parameters are begun to be gathered when this one's are there: on the way forward, and back.
  void set_modules_to_forward_prefetch(const std::vector<FSDPModule>& modules);
  void set_modules_to_backward_prefetch(const std::vector<FSDPModule>& modules);

  // From now on `memory` (engine/fsdp/held_memory.h) is told what this module, and those within it that are
  // sharded, hold of parameters and gradients.
  void watch_memory(const std::shared_ptr<fsdp::HeldMemory>& memory);

  // Where its own parameters lie in the buffer, in the order of named_parameters(); no shards if it has none.
  fsdp::BufferPlan plan() const;

 private:
  std::shared_ptr<fsdp::Unit> unit_;
};

// Cuts the parameters of a module that are not those of a module within it that is sharded already: call it
// for these first, then for the root. Plain parameters and buffers become DTensors, parameters without values
// shards without values (reset_parameters); those placed by a plan must be whole along mesh_dim.
//
// The module's parameters are the cut ones, but within its calls, and while a backward pass is between its
// output and its inputs: optimizers take these, whose gradients are
// cut alike, and come at the end of a backward pass (no hook on them is called), from the outermost module to
// the one that ran first; a pass that throws takes along what passes before it had added up without sync or
// all-reduce. Law: a step has the bits of the same modules whose parameters are redistributed to Replicate
// once for each call, and whose gradients are reduced along mesh_dim first; of an input that is used outside
// of the module too, the module's own gradients are added up first. Under mp_policy parameters are cast
// before they are gathered, and inputs on the way in; each pass's gradients to reduce_dtype, as terms, before
// anything is added to them, and the sum to the parameter's dtype after it is divided; outputs on the way
// out.
//
// Throws Error for parameters of several dtypes or meshes, for a placement that is not Shard(0), for a number
// of ranks to reshard among that does not divide those of mesh_dim, and for a
// parameter that two modules share which are sharded by themselves. A call throws where its module writes to
// a parameter or an input, or returns a parameter; a backward pass, where a parameter has been written since
// the forward, and with create_graph. What the module computes is not to be differentiated but through its
// output. lockstep::checkpoint of a module gathers anew for its second run, which keeps what it gathered for
// its gradients.
FSDPModule fully_shard(nn::Module& module, const MeshInWorld& mesh, FullyShardOptions options = {});

// Several modules, none within another, with one buffer: their parameters are gathered when the first of
// them runs and cut when each has run, or the outermost call returns; on the way back gathered with the last
// one and reduced once each has its gradients, or at the end of the pass. They may share parameters, and
// their paths are those within each. Bits as above, with a round of their calls, at most one of each, for a
// call. Throws Error as above, for no module, and for one that is another or within it.
FSDPModule fully_shard(const std::vector<nn::Module*>& modules, const MeshInWorld& mesh,
                       FullyShardOptions options = {});

}  // namespace lockstep
