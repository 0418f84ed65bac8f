// SPDX-License-Identifier: Apache-2.0
// For tests: every value of a small space.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "engine/values/ragged.h"
#include "engine/values/spec.h"
#include "generators/space/meshes.h"
#include "generators/space/placements.h"
#include "generators/space/shapes.h"

namespace lockstep::generators {

// Grows a mesh by one dimension after another.
inline void extend_meshes(std::vector<int64_t>& prefix, int64_t max_ranks, int64_t max_dims,
                          std::vector<DeviceMesh>& found) {
  if (!prefix.empty()) found.emplace_back(prefix);
  if (std::ssize(prefix) == max_dims) return;
  for (int64_t n = 1; n <= max_ranks; ++n) {
    prefix.push_back(n);
    extend_meshes(prefix, max_ranks / n, max_dims, found);
    prefix.pop_back();
  }
}

// Every mesh of at most `max_ranks` ranks and `max_dims` dimensions, unnamed; dimensions of one rank
// included.
inline std::vector<DeviceMesh> all_meshes(int64_t max_ranks, int64_t max_dims) {
  std::vector<DeviceMesh> found;
  std::vector<int64_t> prefix;
  extend_meshes(prefix, max_ranks, max_dims, found);
  return found;
}

// Every shape of at most `max_dims` dimensions with sizes 0 to `max_size`; the shape of no dimensions first.
inline std::vector<Shape> all_shapes(int64_t max_dims, int64_t max_size) {
  std::vector<Shape> found = {{}};
  for (size_t begin = 0, ndim = 0; static_cast<int64_t>(ndim) < max_dims; ++ndim) {
    const size_t end = found.size();
    for (size_t i = begin; i < end; ++i)
      for (int64_t n = 0; n <= max_size; ++n) {
        auto shape = found[i];
        shape.push_back(n);
        found.push_back(std::move(shape));
      }
    begin = end;
  }
  return found;
}

inline std::vector<int64_t> first_dims(int64_t count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// RaggedShards of a mesh dimension for all_targets.
inline std::vector<Placement> ragged_choices(int64_t ranks, int64_t ndim) {
  std::vector<int64_t> alike(static_cast<size_t>(ranks), 1), rising = first_dims(ranks), last(alike);
  std::fill(last.begin(), last.end() - 1, 0);
  std::vector<Placement> choices;
  for (const int64_t dims : std::set<int64_t>{0, std::min<int64_t>(1, ndim), ndim})
    for (const auto& units : {alike, rising, last})
      if (const Placement p = RaggedShard{first_dims(dims), units};
          units.back() > 0 && std::find(choices.begin(), choices.end(), p) == choices.end())
        choices.push_back(p);
  return choices;
}

inline bool has_whole_blocks(const oracle::Target& target, const DeviceMesh& mesh, const Shape& shape) {
  const auto d = ragged_dim(target.placements);
  if (d < 0) return true;
  const auto& ragged = std::get<RaggedShard>(target.placements[static_cast<size_t>(d)]);
  return common_rows(target.placements, target.order, mesh, shape, ragged.dims.size()) %
             block_count(ragged) ==
         0;
}

// Grows a Target by one mesh dimension after another.
struct Enumeration {
  const DeviceMesh& mesh;
  const Shape& shape;
  const std::vector<Placement>& choices;
  uint32_t kinds;
  std::vector<oracle::Target> found;

  void extend(oracle::Target& prefix) {
    const auto d = std::ssize(prefix.placements);
    if (d == mesh.ndim()) return finish(prefix.placements);
    try_each(choices, prefix);
    if (kinds & kRagged) try_each(ragged_choices(mesh.size(d), std::ssize(shape)), prefix);
  }

  void try_each(const std::vector<Placement>& placements, oracle::Target& prefix) {
    for (const auto& p : placements) {
      if (!compatible(p, prefix.placements, kinds)) continue;
      prefix.placements.push_back(p);
      extend(prefix);
      prefix.placements.pop_back();
    }
  }

  void finish(const Placements& placements) {
    for (auto& order : orders_of(placements))
      if (oracle::Target target{placements, order}; has_whole_blocks(target, mesh, shape))
        found.push_back(std::move(target));
  }
};

// Every legal Target: each placement on each mesh dimension, Interleaved of 2 parts, nested shards in both
// orders; RaggedShard of none, the first or all dimensions, its units alike, rising from 0, or all of one
// rank.
inline std::vector<oracle::Target> all_targets(const DeviceMesh& mesh, const Shape& shape,
                                               c10::ScalarType dtype, uint32_t kinds = kAllPlacements) {
  std::vector<Placement> choices = {Replicate{}};
  for (int64_t dim = 0; dim < std::ssize(shape); ++dim) {
    if (kinds & kShards) choices.emplace_back(Shard{dim});
    if (kinds & kInterleaved) choices.emplace_back(InterleavedShard{dim, 2});
  }
  auto reductions = reductions_of(dtype, kinds);
  reductions.erase(std::unique(reductions.begin(), reductions.end()), reductions.end());
  for (const auto op : reductions) choices.emplace_back(Partial{op});
  Enumeration all{mesh, shape, choices, kinds, {}};
  oracle::Target prefix;
  all.extend(prefix);
  return std::move(all.found);
}

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

}  // namespace lockstep::generators
