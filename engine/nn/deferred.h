// SPDX-License-Identifier: Apache-2.0
// Deferred initialisation: a model is described first, and its values are drawn where they belong.
#pragma once
#include <utility>
#include <vector>

#include "engine/nn/distribute.h"

namespace lockstep::nn {

// Throws Error naming the first parameter or buffer that has memory already.
void require_deferred(const Module& module);

// What make_model() builds and points to: shapes, and no memory. veScale: deferred_init.
template <class Make>
auto deferred_init(Make&& make_model) {
  auto model = std::forward<Make>(make_model)();
  require_deferred(*model);
  return model;
}

// Gives a deferred model its values directly in its shards. Law: on each rank the bits are those that
// reset_parameters(model) gives one device from the same generator state, whatever the placements, and the
// generator ends where it would. At no time is there more memory than the shards of the hosted ranks and a
// copy of one of them; a buffer is computed whole, then cut.
void materialize(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table);

}  // namespace lockstep::nn
