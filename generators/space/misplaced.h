// SPDX-License-Identifier: Apache-2.0
// Placements from which a view or an in-place op has nowhere to go: it would have to move what it views or
// writes to, and is to be refused.
#pragma once
#include <optional>
#include <vector>

#include "generators/space/placements.h"

namespace lockstep::generators {

// What the op needs of its first tensor where that is.
struct Needs {
  std::vector<int64_t> whole{};  // dimensions, counted from the front, along which it must not be cut
  bool no_partial = false;       // its values must not pend
  bool no_ragged = false;        // its locals must not be flat
};

// Placements that lack one of these on a mesh dimension of several ranks, each of which holds several
// elements, so that they are no accident of small sizes. Nullopt if the tensor is too small, or `kinds` has
// none.
std::optional<oracle::Target> draw_misplaced(Random& random, const DeviceMesh& mesh, const Shape& shape,
                                             c10::ScalarType dtype, uint32_t kinds, const Needs& needs);

}  // namespace lockstep::generators
