// SPDX-License-Identifier: Apache-2.0
// DTensors that ordinary factories make.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "engine/context/context.h"
#include "engine/values/placement.h"

namespace lockstep {

// While alive, factories on this thread (at::zeros, at::arange, at::rand, …) make DTensors of this mesh, so
// placed; no placements: Replicate. Random ones draw the single device's values.
class FactoryScope {
 public:
  explicit FactoryScope(std::shared_ptr<const Comm> comm, Placements placements = {})
      : include_(c10::DispatchKey::Fake),
        comm_(&Context::factories, std::move(comm)),
        placements_(&Context::factory_placements, std::move(placements)) {}

 private:
  c10::impl::IncludeDispatchKeyGuard include_;
  Within<std::shared_ptr<const Comm>> comm_;
  Within<Placements> placements_;
};

}  // namespace lockstep
