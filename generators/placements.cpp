// SPDX-License-Identifier: Apache-2.0
#include "generators/placements.h"

#include <algorithm>
#include <numeric>

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

void extend(Target& prefix, const std::vector<Placement>& choices, const DeviceMesh& mesh, uint32_t kinds,
            std::vector<Target>& found) {
  if (static_cast<int64_t>(prefix.placements.size()) == mesh.ndim()) {
    for (auto& order : orders_of(prefix.placements)) found.push_back({prefix.placements, order});
    return;
  }
  for (const auto& p : choices) {
    if (!compatible(p, prefix.placements, kinds)) continue;
    prefix.placements.push_back(p);
    extend(prefix, choices, mesh, kinds, found);
    prefix.placements.pop_back();
  }
}

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

bool shards(const Target& target, int64_t dim) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [&](const auto& p) { return shard_dim(p) == dim; });
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
  std::vector<Target> found;
  Target prefix;
  extend(prefix, choices, mesh, kinds, found);
  return found;
}

}  // namespace lockstep::generators
