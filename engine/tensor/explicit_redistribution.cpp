// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/explicit_redistribution.h"

#include "engine/tensor/dtensor.h"

namespace lockstep {
namespace {
thread_local bool g_required = false;
}

ExplicitRedistribution::ExplicitRedistribution() : previous_(g_required) {
  g_required = true;
}
ExplicitRedistribution::~ExplicitRedistribution() {
  g_required = previous_;
}

bool explicit_redistribution_required() {
  return g_required;
}

}  // namespace lockstep
