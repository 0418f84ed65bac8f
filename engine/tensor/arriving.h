// SPDX-License-Identifier: Apache-2.0
// Arriving: the locals of a DTensor that are on their way (redistribute with async_op, decision 0011).
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "engine/values/per_rank.h"
#include "engine/world/comm.h"

namespace lockstep {

class Arriving {
 public:
  // `take` waits for the locals; they are made of `sent`; `what` names them for people.
  Arriving(std::string what, CommPtr comm, PerRank<at::Tensor> sent,
           std::function<PerRank<at::Tensor>()> take);
  // Where nobody has asked for them, it waits, since other ranks are in the exchange, and names them.
  ~Arriving();
  Arriving(const Arriving&) = delete;
  Arriving& operator=(const Arriving&) = delete;

  // Waits, the first time. Throws again what that wait threw.
  const PerRank<at::Tensor>& locals();
  // Whether one of these has storage in common with what is still sent: a question that all ranks answer
  // alike, also those that hold no element of it.
  bool sends(const PerRank<at::Tensor>& written) const;
  const std::string& what() const { return what_; }

 private:
  const std::string what_;
  const CommPtr comm_;
  PerRank<at::Tensor> sent_;
  std::function<PerRank<at::Tensor>()> take_;  // null: taken
  PerRank<at::Tensor> locals_;
  std::exception_ptr failed_;
};

}  // namespace lockstep
