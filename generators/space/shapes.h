// SPDX-License-Identifier: Apache-2.0
// Shapes: sizes gather around the mesh's sizes (n-1, n, n+1), and around 0 and 1, where uneven and empty
// shards live.
#pragma once
#include "engine/values/device_mesh.h"
#include "generators/space/random.h"

namespace lockstep::generators {

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);

// @post least <= result
int64_t draw_size(Random& random, const DeviceMesh& mesh, int64_t least = 0);
// @post numel <= max_numel, every size >= least
Shape draw_shape(Random& random, const DeviceMesh& mesh, int64_t ndim, int64_t max_numel, int64_t least = 0);
// A permutation of the dimensions, from slowest to fastest; empty (contiguous) most of the time.
Shape draw_memory_order(Random& random, int64_t ndim);
// A shape that broadcasts to `shape`: leading dimensions dropped, others set to 1.
Shape draw_broadcastable(Random& random, const Shape& shape);

}  // namespace lockstep::generators
