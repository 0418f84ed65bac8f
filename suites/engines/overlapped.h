// SPDX-License-Identifier: Apache-2.0
// Overlapped: the redistributions of one run of a Program, begun and waited for as its Case says.
#pragma once
#include "engine/tensor/dtensor.h"
#include "suites/core/overlap.h"

namespace lockstep::suites {

class Overlapped {
 public:
  // Is given what each redistribution gave, to spoil it.
  using Spoil = std::function<void(const at::Tensor& moved)>;
  Overlapped(const oracle::Case& c, Spoil spoil);

  // The next one. Undefined where its result goes at once. Throws logic_error where what is sent can be
  // written.
  at::Tensor move(const at::Tensor& tensor, const oracle::Target& target);
  // Waits for what no op has waited for.
  void finish() const;

 private:
  const Overlap how_;
  const std::vector<Begun> all_;
  const Spoil spoil_;
  size_t next_ = 0;
  std::vector<at::Tensor> begun_;
};

}  // namespace lockstep::suites
