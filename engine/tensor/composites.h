// SPDX-License-Identifier: Apache-2.0
// Composite ops that must not decompose for a DTensor as they do for a plain CPU tensor.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "engine/world/comm.h"

namespace lockstep {

// Within it, the tensors that ops view and write are a composite op's own, which nobody else sees: they may
// move.
class CompositeScope {
 public:
  CompositeScope();
  ~CompositeScope();
  CompositeScope(const CompositeScope&) = delete;
  CompositeScope& operator=(const CompositeScope&) = delete;

 private:
  bool previous_;
};
bool in_composite();

// Within it, factories that composite ops call make replicated DTensors of this mesh.
class FactoryScope {
 public:
  explicit FactoryScope(CommPtr comm);
  ~FactoryScope();
  FactoryScope(const FactoryScope&) = delete;
  FactoryScope& operator=(const FactoryScope&) = delete;

 private:
  c10::impl::IncludeDispatchKeyGuard include_;
  CommPtr comm_;
};
// Null outside of any.
const CommPtr& factory_comm();

}  // namespace lockstep
