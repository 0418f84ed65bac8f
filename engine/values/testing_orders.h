// SPDX-License-Identifier: Apache-2.0
// For tests: the order of a Spec's whole reduction.
#pragma once
#include "engine/values/reduction_order.h"

namespace lockstep {

// All that pends, from left to right.
inline ReductionOrder fold_over(const Spec& spec) {
  std::vector<int64_t> mesh_dims;
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (is_partial(spec.placements()[static_cast<size_t>(d)])) mesh_dims.push_back(d);
  return fold_over(spec, mesh_dims);
}

}  // namespace lockstep
