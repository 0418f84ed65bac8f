// SPDX-License-Identifier: Apache-2.0
#include "generators/space/placements.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/values/ragged.h"

namespace lockstep::generators {
namespace {

using oracle::Target;

bool linear(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

// May `p` stand beside the placements chosen so far?
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

bool nested(const Placements& placements) {
  for (size_t i = 0; i < placements.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (is_shard(placements[i]) && shard_dim(placements[i]) == shard_dim(placements[j])) return true;
  return false;
}

// Orders that differ in meaning: those that permute the mesh dimensions which share a tensor dimension.
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

Placement draw_one(Random& random, const Shape& shape, c10::ScalarType dtype, uint32_t kinds) {
  const auto ndim = static_cast<int64_t>(shape.size());
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

// As many units as divide the rows that the other placements leave to each rank, given out to the ranks by
// chance: often alike, often one for each before the rest, often none for some.
RaggedShard draw_ragged(Random& random, const Target& others, const DeviceMesh& mesh, const Shape& shape,
                        int64_t ranks) {
  const auto ndim = static_cast<int64_t>(shape.size());
  const auto dims = random.chance(5) ? 0 : random.between(std::min<int64_t>(1, ndim), ndim);
  const auto rows = common_rows(others.placements, others.order, mesh, shape, static_cast<size_t>(dims));
  std::vector<int64_t> units(static_cast<size_t>(ranks), 1);
  if (rows % ranks == 0 && random.chance(25)) return {leading(dims), units};
  const bool each = random.chance(40);
  std::vector<int64_t> sums;
  for (int64_t sum = 1; sum <= 24; ++sum)
    if (rows % sum == 0 && (!each || sum > ranks)) sums.push_back(sum);
  if (!each || sums.empty()) std::fill(units.begin(), units.end(), 0);
  if (sums.empty()) sums = {1};
  const auto given = std::accumulate(units.begin(), units.end(), int64_t{0});
  for (int64_t left = random.pick(sums) - given; left > 0; --left)
    ++units[static_cast<size_t>(random.below(ranks))];
  return {leading(dims), units};
}

// RaggedShards of a mesh dimension for all_targets.
std::vector<Placement> ragged_choices(int64_t ranks, int64_t ndim) {
  std::vector<int64_t> alike(static_cast<size_t>(ranks), 1), rising = leading(ranks), last(alike);
  std::fill(last.begin(), last.end() - 1, 0);
  std::vector<Placement> choices;
  for (const int64_t dims : std::set<int64_t>{0, std::min<int64_t>(1, ndim), ndim})
    for (const auto& units : {alike, rising, last})
      if (const Placement p = RaggedShard{leading(dims), units};
          units.back() > 0 && std::find(choices.begin(), choices.end(), p) == choices.end())
        choices.push_back(p);
  return choices;
}

bool has_whole_blocks(const Target& target, const DeviceMesh& mesh, const Shape& shape) {
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
  std::vector<Target> found;

  void extend(Target& prefix) {
    const auto d = static_cast<int64_t>(prefix.placements.size());
    if (d == mesh.ndim()) return finish(prefix.placements);
    try_each(choices, prefix);
    if (kinds & kRagged) try_each(ragged_choices(mesh.size(d), static_cast<int64_t>(shape.size())), prefix);
  }

  void try_each(const std::vector<Placement>& placements, Target& prefix) {
    for (const auto& p : placements) {
      if (!compatible(p, prefix.placements, kinds)) continue;
      prefix.placements.push_back(p);
      extend(prefix);
      prefix.placements.pop_back();
    }
  }

  void finish(const Placements& placements) {
    for (auto& order : orders_of(placements))
      if (Target target{placements, order}; has_whole_blocks(target, mesh, shape))
        found.push_back(std::move(target));
  }
};

}  // namespace

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
  if ((kinds & kRagged) && random.chance(10)) {
    const auto d = random.below(mesh.ndim());
    auto& p = target.placements[static_cast<size_t>(d)];
    p = Replicate{};
    target.order = random.pick(orders_of(target.placements));
    p = draw_ragged(random, target, mesh, shape, mesh.size(d));
    return target;
  }
  target.order = random.pick(orders_of(target.placements));
  return target;
}

Target replicated(const DeviceMesh& mesh) {
  return {Placements(static_cast<size_t>(mesh.ndim()), Replicate{}), {}};
}

bool has_partial(const Target& target) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [](const auto& p) { return is_partial(p); });
}

bool has_ragged(const Target& target) {
  return ragged_dim(target.placements) >= 0;
}

bool shards(const Target& target, int64_t dim) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [&](const auto& p) { return shard_dim(p) == dim || is_ragged(p); });
}

std::vector<Target> all_targets(const DeviceMesh& mesh, const Shape& shape, c10::ScalarType dtype,
                                uint32_t kinds) {
  std::vector<Placement> choices = {Replicate{}};
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    if (kinds & kShards) choices.emplace_back(Shard{dim});
    if (kinds & kInterleaved) choices.emplace_back(InterleavedShard{dim, 2});
  }
  auto reductions = reductions_of(dtype, kinds);
  reductions.erase(std::unique(reductions.begin(), reductions.end()), reductions.end());
  for (const auto op : reductions) choices.emplace_back(Partial{op});
  Enumeration all{mesh, shape, choices, kinds, {}};
  Target prefix;
  all.extend(prefix);
  return std::move(all.found);
}

}  // namespace lockstep::generators
