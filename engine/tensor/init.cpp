// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/init.h"

namespace lockstep {

void engine_init() {
  register_dispatch();
  register_composites();
  register_gradients();
}

}  // namespace lockstep
