// SPDX-License-Identifier: Apache-2.0
// randperm: every rank that holds a part of a permutation computes all of it.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/layout/layout.h"
#include "engine/random/random_geometry.h"

namespace lockstep {

// Writes the owned elements of the permutation into `out`. A device's geometry gives that device's
// permutation; an indexed one the stable order of 64 random bits for each element.
void fill_permutation(const RandomCall& call, const Owned& owned, const RandomState& state,
                      const RandomGeometry& geometry, const at::Tensor& out);

}  // namespace lockstep
