// SPDX-License-Identifier: Apache-2.0
// Composite ops that must not decompose for a DTensor as they do for a plain CPU tensor.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "engine/world/comm.h"

namespace lockstep {

// Within it, the tensors that ops view and write are a composite op's own, which nobody else sees: they may
// move.
struct CompositeScope : Within<bool> {
  CompositeScope() : Within(&Context::in_composite, true) {}
};

// Within it, factories that composite ops call make replicated DTensors of this mesh.
class FactoryScope {
 public:
  explicit FactoryScope(CommPtr comm)
      : include_(c10::DispatchKey::Fake), comm_(&Context::factories, std::move(comm)) {}

 private:
  c10::impl::IncludeDispatchKeyGuard include_;
  Within<CommPtr> comm_;
};

}  // namespace lockstep
