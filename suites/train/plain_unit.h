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
  // @param paths of the module's parameters that are its own
  PlainUnit(nn::Module& module, std::vector<std::string> paths, MixedPrecisionPolicy policy);
  PlainUnit(const PlainUnit&) = delete;
  PlainUnit& operator=(const PlainUnit&) = delete;

  // The unit whose parameters are cast when this one is called.
  void prefetch(PlainUnit& next) { next_ = &next; }
  // Takes what has come to its parameters in a pass: when the gradients of its inputs are there, and at its
  // end.
  void collect();
  // Adds what was taken, divided, and in the dtype of each parameter, to its gradient.
  void deliver(double divided_by);
  // After a pass, in which the module computes with casts, also where it runs again.
  void close();
  // Adds the gradients to those of the parameters.
  void hand_in();
  // These have been updated, where they have a gradient. (libtorch's fused optimizers move no version.)
  void updated();

 private:
  at::Tensor call(nn::Tensors inputs, const nn::Module::Forward& forward);
  void cast();
  void show(const std::vector<at::Tensor>& which);
  bool converts(size_t i) const;

  nn::Module& module_;
  const std::vector<std::string> paths_;
  const MixedPrecisionPolicy policy_;
  PlainUnit* next_ = nullptr;
  bool is_open_ = false, is_stale_ = true;
  std::vector<at::Tensor> parameters_, whole_;  // by path: as they are, and as the module computes with them
  std::vector<at::Tensor> sums_;                // in the dtype of the reduction, where it is another
  std::vector<at::Tensor> gradients_;
};

// Those of one model.
class PlainUnits {
 public:
  // In the order in which they are called: the outermost first.
  void add(nn::Module& module, std::vector<std::string> paths, MixedPrecisionPolicy policy);
  // Each casts the parameters of the next.
  void prefetch();
  // After a backward pass. @param divided_by nothing: gradients are kept, and none is delivered
  void end_pass(std::optional<double> divided_by);
  void hand_in();
  void updated();

 private:
  // From the outermost to the one that was called first, as gradients come.
  template <class F>
  void each(const F& f) {
    for (size_t i = 0; i < units_.size(); ++i) f(*units_[i == 0 ? 0 : units_.size() - i]);
  }

  std::vector<std::unique_ptr<PlainUnit>> units_;
};

}  // namespace lockstep::suites
