// SPDX-License-Identifier: Apache-2.0
// Exhaustive mode: every value of a small space, by the same code that generates large ones.
#pragma once
#include <functional>

#include "engine/values/spec.h"
#include "generators/space/meshes.h"
#include "generators/space/placements.h"
#include "generators/space/shapes.h"

namespace lockstep::generators {

struct Space {
  int64_t max_ranks = 4, max_mesh_dims = 2;
  int64_t max_dims = 2, max_size = 5;
  c10::ScalarType dtype = c10::ScalarType::Float;
  uint32_t placements = kAllPlacements;
};

// Every Spec of the space, meshes slowest.
inline void visit_specs(const Space& space, const std::function<void(const Spec&)>& visit) {
  for (const auto& mesh : all_meshes(space.max_ranks, space.max_mesh_dims))
    for (const auto& shape : all_shapes(space.max_dims, space.max_size))
      for (const auto& target : all_targets(mesh, shape, space.dtype, space.placements))
        visit(Spec(mesh, target.placements, shape, contiguous_strides(shape), space.dtype, target.order));
}

// Every pair of Specs that differ in placements only.
inline void visit_pairs(const Space& space, const std::function<void(const Spec&, const Spec&)>& visit) {
  for (const auto& mesh : all_meshes(space.max_ranks, space.max_mesh_dims))
    for (const auto& shape : all_shapes(space.max_dims, space.max_size)) {
      std::vector<Spec> specs;
      for (const auto& target : all_targets(mesh, shape, space.dtype, space.placements))
        specs.emplace_back(mesh, target.placements, shape, contiguous_strides(shape), space.dtype,
                           target.order);
      for (const auto& from : specs)
        for (const auto& to : specs) visit(from, to);
    }
}

// Every way to place the inputs of a case on its mesh, its calls unchanged: the rows of an op, right and
// wrong.
inline void visit_placements(const oracle::Case& c, uint32_t kinds,
                             const std::function<void(const oracle::Case&)>& visit) {
  std::vector<std::vector<oracle::Target>> choices;
  for (const auto& input : c.program.inputs)
    choices.push_back(all_targets(c.mesh, input.shape, input.dtype, kinds));
  oracle::Case placed = c;
  const std::function<void(size_t)> extend = [&](size_t input) {
    if (input == choices.size()) return visit(placed);
    for (const auto& target : choices[input]) {
      placed.placements[input] = target;
      extend(input + 1);
    }
  };
  extend(0);
}

}  // namespace lockstep::generators
