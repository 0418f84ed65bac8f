// SPDX-License-Identifier: Apache-2.0
#include "generators/space/placements.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "engine/values/ragged.h"

namespace lockstep::generators {
namespace {

using oracle::Target;

bool linear(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

bool nested(const Placements& placements) {
  for (size_t i = 0; i < placements.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (is_shard(placements[i]) && shard_dim(placements[i]) == shard_dim(placements[j])) return true;
  return false;
}

Placement draw_one(Random& random, const Shape& shape, c10::ScalarType dtype, uint32_t kinds) {
  const auto ndim = std::ssize(shape);
  const auto reductions = reductions_of(dtype, kinds);
  const bool can_shard = ndim > 0 && (kinds & kShards);
  switch (random.weighted<int>({{25, 0},
                                {can_shard ? 45 : 0, 1},
                                {can_shard && (kinds & kInterleaved) ? 5 : 0, 2},
                                {reductions.empty() ? 0 : 22, 3}})) {
    case 1:
      return Shard{random.below(ndim)};
    case 2:
      return InterleavedShard{random.below(ndim), random.between(2, 3)};
    case 3:
      return Partial{random.pick(reductions)};
    default:
      return Replicate{};
  }
}

std::vector<int64_t> leading(int64_t count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// As many units as divide the rows, given out to the ranks by chance: often alike, often one for each before
// the rest, often none for some.
std::vector<int64_t> draw_units(Random& random, int64_t rows, int64_t ranks) {
  std::vector<int64_t> units(static_cast<size_t>(ranks), 1);
  if (rows % ranks == 0 && random.chance(25)) return units;
  const bool each = random.chance(40);
  std::vector<int64_t> sums;
  for (int64_t sum = 1; sum <= 24; ++sum)
    if (rows % sum == 0 && (!each || sum > ranks)) sums.push_back(sum);
  if (!each || sums.empty()) std::fill(units.begin(), units.end(), 0);
  if (sums.empty()) sums = {1};
  const auto given = std::accumulate(units.begin(), units.end(), int64_t{0});
  for (int64_t left = random.pick(sums) - given; left > 0; --left)
    ++units[static_cast<size_t>(random.below(ranks))];
  return units;
}

// Units that divide the rows that the other placements leave to each rank; sometimes, where they leave ranks
// different rows, a list for each coordinate of theirs.
RaggedShard draw_ragged(Random& random, const Target& others, const DeviceMesh& mesh, const Shape& shape,
                        int64_t mesh_dim) {
  const auto ndim = std::ssize(shape);
  const auto dims = random.chance(5) ? 0 : random.between(std::min<int64_t>(1, ndim), ndim);
  const auto rows = [&](int64_t position) {
    return rows_at(others.placements, others.order, mesh, shape, static_cast<size_t>(dims), position);
  };
  std::set<int64_t> found;
  for (int64_t p = 0; p < mesh.size(); ++p) found.insert(rows(p));
  const auto ranks = mesh.size(mesh_dim);
  if (found.size() == 1 || !random.chance(50)) {
    const auto common = common_rows(others.placements, others.order, mesh, shape, static_cast<size_t>(dims));
    return {leading(dims), draw_units(random, common, ranks)};
  }
  RaggedShard ragged{leading(dims), {}, 0};
  std::map<int64_t, std::vector<int64_t>> lists;  // by the first position of those that have the same rows
  for (int64_t p = 0; p < mesh.size(); ++p) {
    if (mesh.coordinate(p)[static_cast<size_t>(mesh_dim)] != 0) continue;
    const auto first = first_of_box(others.placements, mesh, p);
    auto& units = lists[first];
    if (first == p) units = draw_units(random, rows(p), ranks);
    ragged.units.insert(ragged.units.end(), units.begin(), units.end());
    ++ragged.lists;
  }
  return ragged;
}

}  // namespace

bool compatible(const Placement& p, const Placements& chosen, uint32_t kinds) {
  for (const auto& other : chosen) {
    if (is_partial(p) && is_partial(other)) {
      const auto a = std::get<Partial>(p).op, b = std::get<Partial>(other).op;
      if (a != b && !(linear(a) && linear(b))) return false;
    }
    if (is_shard(p) && shard_dim(p) == shard_dim(other) && !(kinds & kNestedShards)) return false;
    if (is_ragged(p) && is_ragged(other)) return false;
  }
  return true;
}

std::vector<std::vector<int64_t>> orders_of(const Placements& placements) {
  std::vector<std::vector<int64_t>> orders = {{}};
  if (!nested(placements)) return orders;
  std::vector<int64_t> order(placements.size());
  std::iota(order.begin(), order.end(), 0);
  const auto identity = order;
  while (std::next_permutation(order.begin(), order.end())) {
    // Normal form: a mesh dimension that shares no tensor dimension stands in its own place.
    bool normal = true;
    for (size_t place = 0; place < order.size() && normal; ++place)
      normal = order[place] == identity[place] ||
               (is_shard(placements[place]) &&
                shard_dim(placements[place]) == shard_dim(placements[static_cast<size_t>(order[place])]));
    if (normal) orders.push_back(order);
  }
  return orders;
}

std::vector<ReduceOp> reductions_of(c10::ScalarType dtype, uint32_t kinds) {
  std::vector<ReduceOp> ops;
  if (dtype == c10::ScalarType::Bool) return ops;
  if (kinds & kSums) {
    ops.insert(ops.end(), 2, ReduceOp::kSum);
    if (c10::isFloatingType(dtype)) ops.push_back(ReduceOp::kAvg);
  }
  if (kinds & kMaxima) ops.insert(ops.end(), {ReduceOp::kMax, ReduceOp::kMin});
  if (kinds & kProducts) ops.push_back(ReduceOp::kProduct);
  return ops;
}

Target draw_target(Random& random, const DeviceMesh& mesh, const Shape& shape, c10::ScalarType dtype,
                   uint32_t kinds) {
  Target target;
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    Placement p = draw_one(random, shape, dtype, kinds);
    // A second try keeps mixtures frequent where the first clashes; Replicate always fits.
    if (!compatible(p, target.placements, kinds)) p = draw_one(random, shape, dtype, kinds);
    if (!compatible(p, target.placements, kinds)) p = Replicate{};
    target.placements.push_back(p);
  }
  if ((kinds & kRagged) && random.chance(13))
    return with_ragged(random, target, mesh, shape, random.below(mesh.ndim()));
  target.order = random.pick(orders_of(target.placements));
  return target;
}

Target with_ragged(Random& random, Target others, const DeviceMesh& mesh, const Shape& shape,
                   int64_t mesh_dim) {
  auto& p = others.placements[static_cast<size_t>(mesh_dim)];
  p = Replicate{};
  others.order = random.pick(orders_of(others.placements));
  p = draw_ragged(random, others, mesh, shape, mesh_dim);
  return others;
}

// The dimension of `shape` that goes with dimension `dim` of `its`: counted from the end, as they broadcast,
// or else the first of that size; -1: none.
static int64_t dim_beside(int64_t dim, const Shape& its, const Shape& shape) {
  const auto size = its[static_cast<size_t>(dim)];
  const auto from_end = dim + std::ssize(shape) - std::ssize(its);
  if (from_end >= 0 && shape[static_cast<size_t>(from_end)] == size) return from_end;
  const auto found = std::find(shape.begin(), shape.end(), size);
  return found == shape.end() ? -1 : found - shape.begin();
}

Target beside(const Target& other, const Shape& its, const Shape& shape, c10::ScalarType dtype,
              uint32_t kinds) {
  Target target;
  for (const Placement& p : other.placements) {
    Placement own = Replicate{};
    if (is_ragged(p)) {
      if (shape == its && (kinds & kRagged)) own = p;
    } else if (const auto* partial = std::get_if<Partial>(&p)) {
      const auto ops = reductions_of(dtype, kinds);
      if (std::find(ops.begin(), ops.end(), partial->op) != ops.end()) own = p;
    } else if (const auto dim = shard_dim(p); dim >= 0) {
      if (const auto beside = dim_beside(dim, its, shape); beside >= 0) own = with_dim(p, beside);
    }
    target.placements.push_back(compatible(own, target.placements, kinds) ? own : Replicate{});
  }
  if (target.placements == other.placements) target.order = other.order;
  // Blocks are rows of what the others leave, which must be what they left there.
  for (size_t d = 0; d < target.placements.size(); ++d)
    if (is_shard(other.placements[d]) && target.placements[d] != other.placements[d])
      std::replace_if(target.placements.begin(), target.placements.end(), is_ragged, Placement(Replicate{}));
  return target;
}

Target replicated(const DeviceMesh& mesh) {
  return {Placements(static_cast<size_t>(mesh.ndim()), Replicate{}), {}};
}

Target placed_along(const DeviceMesh& mesh, int64_t mesh_dim, const Placement& placement) {
  auto target = replicated(mesh);
  target.placements[static_cast<size_t>(mesh_dim)] = placement;
  return target;
}

bool has_ragged(const Target& target) {
  return lockstep::has_ragged(target.placements);
}

bool shards(const Target& target, int64_t dim) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [&](const auto& p) { return shard_dim(p) == dim || is_ragged(p); });
}

}  // namespace lockstep::generators
