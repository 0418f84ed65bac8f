// SPDX-License-Identifier: Apache-2.0
// A mistake planted in what a case of the suite `checkpoint` saves and loads.
#pragma once
#include "engine/checkpoint/checkpoint.h"
#include "suites/checkpoint/saving.h"

namespace lockstep::suites {

// Saving and loading as a fault finds them. What it writes to is what goes on.
struct SavingScene {
  const Saving& saving;
  const std::string& folder;
  std::vector<dcp::NamedTensor>& state;  // what is saved, or was loaded
};

// Null functions change nothing.
struct SavingFault {
  void (*before_save)(SavingScene& scene) = nullptr;
  void (*after_save)(SavingScene& scene) = nullptr;  // where rank 0 is hosted
  void (*after_load)(SavingScene& scene) = nullptr;
};

}  // namespace lockstep::suites
