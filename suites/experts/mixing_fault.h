// SPDX-License-Identifier: Apache-2.0
// A mistake planted in the mixture of a case of the suite `experts`, on its mesh alone.
#pragma once
#include "engine/nn/experts.h"
#include "suites/experts/mixing.h"

namespace lockstep::suites {

// Null functions change nothing.
struct MixingFault {
  void (*before)(const Mixing& mixing, nn::MixtureOfExperts& mixture) = nullptr;  // it is called
  void (*after)(const Mixing& mixing, nn::MixtureOfExperts& mixture) = nullptr;   // there are gradients
};

}  // namespace lockstep::suites
