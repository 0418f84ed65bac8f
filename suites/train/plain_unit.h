// SPDX-License-Identifier: Apache-2.0
// PlainUnit: what fully_shard means on one device. Nothing is cut there; what is left of it are the dtypes in
// which a module computes, and when and in which dtype gradients of several passes are added up.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/fsdp/mixed_precision.h"
#include "engine/nn/module.h"

namespace lockstep::suites {

class PlainUnit {
 public:
  // @param modules that are sharded together, of `model`
  // @param paths from the model, of the parameters that are their own
  PlainUnit(nn::Module& model, const std::vector<nn::Module*>& modules, std::vector<std::string> paths,
            MixedPrecisionPolicy policy);
  PlainUnit(const PlainUnit&) = delete;
  PlainUnit& operator=(const PlainUnit&) = delete;

  // Whether its module was called, or its parameters cast, before.
  bool is_used() const { return is_used_; }
  // The unit whose parameters are cast when this one is called.
  void prefetch(PlainUnit& next) { next_ = &next; }
  // The parameters are now what the module computes with, where they were written since.
  void cast();
  // false: gradients are kept, and none is delivered.
  void sync(bool on) { syncs_ = on; }
  // Takes what has come to its parameters in a pass: when the gradients of the inputs of all calls are there
  // of the rounds that the pass has reached, and at its end.
  void collect();
  // Adds up what the pass took, in the order in which it did.
  void settle();
  // Adds that, divided, and in the dtype of each parameter, to its gradient.
  void deliver(double divided_by);
  // After a pass, in which the module computes with casts, also where it runs again.
  void close();
  // Adds the gradients to those of the parameters.
  void hand_in();
  // These have been updated, where they have a gradient. (libtorch's fused optimizers move no version.)
  void updated();

 private:
  // Calls of the modules, one of each at most.
  struct Round {
    std::vector<bool> ran;
    int64_t calls = 0, back = 0;  // that have a gradient; of these, those whose inputs a pass has reached
    bool is_reached = false;
  };
  std::shared_ptr<Round> round_of(size_t module);
  at::Tensor call(size_t module, nn::Tensors inputs, const nn::Module::Forward& forward);
  void cast_anew();
  void show(const std::vector<at::Tensor>& which);
  bool converts(size_t i) const;

  nn::Module& model_;
  const std::vector<nn::Module*> modules_;
  const std::vector<std::string> paths_;
  const MixedPrecisionPolicy policy_;
  PlainUnit* next_ = nullptr;
  bool is_used_ = false, is_open_ = false, is_stale_ = true, syncs_ = true;
  std::shared_ptr<Round> round_;
  int64_t reached_ = 0;                         // rounds whose outputs a pass has reached, and not all inputs
  std::vector<at::Tensor> parameters_, whole_;  // by path: as they are, and as the module computes with them
  std::vector<at::Tensor> sums_;                // in the dtype of the reduction, where it is another
  std::vector<std::vector<at::Tensor>> taken_;  // in this pass
  std::vector<at::Tensor> reduced_;             // since the last one that delivered
  std::vector<at::Tensor> gradients_;
};

// Those of one model.
class PlainUnits {
 public:
  // In the order in which they are called: the outermost first. As PlainUnit.
  // @param is_within the last one that is within the outermost alone
  void add(nn::Module& model, const std::vector<nn::Module*>& modules, std::vector<std::string> paths,
           MixedPrecisionPolicy policy, bool is_within = false);
  // Each casts the parameters of the next.
  void prefetch();
  // As when each is called.
  void cast();
  // Before a backward pass: whether it delivers gradients, or they are kept.
  void sync(bool on);
  // After it.
  // @param delivers false: what the pass took is kept, and delivered with that of the next ones
  void end_pass(double divided_by = 1, bool delivers = true);
  // After calls that no backward pass follows.
  void close();
  void hand_in();
  void updated();

 private:
  // Those that are used, each before those within it, and of these the one that was called last first.
  template <class F>
  void each(const F& f) {
    for (auto* unit : on_the_way_back_)
      if (unit->is_used()) f(*unit);
  }

  std::vector<std::unique_ptr<PlainUnit>> units_;
  std::vector<PlainUnit*> on_the_way_back_;
};

}  // namespace lockstep::suites
