// SPDX-License-Identifier: Apache-2.0
// A mistake planted in the steps of a case of the suite `optim`, on its mesh alone.
#pragma once
#include "engine/optim/adamw8bit.h"
#include "suites/optim/stepping.h"

namespace lockstep::suites {

// The steps as a fault finds them. What it writes to, or puts in place of a state, is what goes on.
struct SteppingScene {
  const Stepping& stepping;
  int64_t step;  // from 1
  std::vector<at::Tensor>& parameters;
  optim::AdamW8bitState& adamw;       // of 8 bits
  std::vector<at::Tensor>& momentum;  // of Muon
  std::vector<at::Tensor>& kept;      // by the fault, from step to step
};

// Null functions change nothing.
struct SteppingFault {
  void (*before_step)(SteppingScene& scene) = nullptr;
  void (*after_step)(SteppingScene& scene) = nullptr;
};

}  // namespace lockstep::suites
