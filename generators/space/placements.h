// SPDX-License-Identifier: Apache-2.0
// Placements for a shape on a mesh: whatever a Spec accepts, and nothing that it does not.
#pragma once
#include "engine/values/device_mesh.h"
#include "generators/space/random.h"
#include "generators/space/shapes.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// Which placements a case may use; swarm testing leaves some out.
enum PlacementKind : uint32_t {
  kShards = 1,
  kNestedShards = 2,  // several mesh dimensions on one tensor dimension, in either order
  kInterleaved = 4,
  kSums = 8,     // Partial sum and avg
  kMaxima = 16,  // Partial max and min
  kProducts = 32,
  kRagged = 64,
  kAllPlacements = 127,
  kPartials = kSums | kMaxima | kProducts,
};

// The Partials that a dtype can hold: none for bool, no avg for integers.
std::vector<ReduceOp> reductions_of(c10::ScalarType dtype, uint32_t kinds = kAllPlacements);

// @post Spec(mesh, result.placements, shape, …, result.order) is legal
oracle::Target draw_target(Random& random, const DeviceMesh& mesh, const Shape& shape, c10::ScalarType dtype,
                           uint32_t kinds = kAllPlacements);
// May `p` stand beside the placements chosen so far?
bool compatible(const Placement& p, const Placements& chosen, uint32_t kinds);
// Orders that differ in meaning: those that permute the mesh dimensions which share a tensor dimension.
std::vector<std::vector<int64_t>> orders_of(const Placements& placements);
oracle::Target replicated(const DeviceMesh& mesh);
// That, but for one mesh dimension.
oracle::Target placed_along(const DeviceMesh& mesh, int64_t mesh_dim, const Placement& placement);
// These placements with a RaggedShard on one mesh dimension, in whose place none of them was.
oracle::Target with_ragged(Random& random, oracle::Target others, const DeviceMesh& mesh, const Shape& shape,
                           int64_t mesh_dim);
// How a tensor of this shape lies so that an op which broadcasts, or goes along a dimension of both, finds on
// each rank what belongs together: cut where the other is, or whole where it has no such dimension.
// @post Spec(mesh, result.placements, shape, …, result.order) is legal where `other` is of `its` shape
oracle::Target beside(const oracle::Target& other, const Shape& its, const Shape& shape,
                      c10::ScalarType dtype, uint32_t kinds = kAllPlacements);
bool has_ragged(const oracle::Target& target);
// A RaggedShard cuts across every dimension.
bool shards(const oracle::Target& target, int64_t dim);

}  // namespace lockstep::generators
