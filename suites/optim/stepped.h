// SPDX-License-Identifier: Apache-2.0
// The steps of a case of the suite `optim` on ranks.
#pragma once
#include "engine/world/world.h"
#include "suites/optim/stepping_fault.h"

namespace lockstep::suites {

inline constexpr double kLr = 0.05, kDecay = 0.1, kBeta2 = 0.95;  // of every case; else the optimizers' own

// Of each parameter its value at the end, then what is remembered of it: in 8 bits the codes and scales of
// both moments, of Muon the momentum. Undefined where there is none.
std::vector<at::Tensor> stepped(const WorldPtr& world, const Stepping& stepping,
                                const SteppingFault& fault = {});

}  // namespace lockstep::suites
