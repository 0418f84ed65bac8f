// SPDX-License-Identifier: Apache-2.0
// Tensors of modules that are others for a while.
#pragma once
#include <utility>
#include <vector>

#include "engine/nn/module.h"

namespace lockstep {

class Instead {
 public:
  explicit Instead(std::vector<at::Tensor*> slots) : slots_(std::move(slots)) {
    for (const auto* slot : slots_) were_.push_back(*slot);
  }
  ~Instead() {
    for (size_t i = 0; i < slots_.size(); ++i) *slots_[i] = were_[i];
  }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;

  const nn::Tensors& were() const { return were_; }
  void set(size_t i, at::Tensor value) { *slots_[i] = std::move(value); }

 private:
  std::vector<at::Tensor*> slots_;
  nn::Tensors were_;
};

}  // namespace lockstep
