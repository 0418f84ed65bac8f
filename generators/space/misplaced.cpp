// SPDX-License-Identifier: Apache-2.0
#include "generators/space/misplaced.h"

#include <algorithm>

#include "engine/values/ragged.h"

namespace lockstep::generators {
namespace {

using oracle::Target;

constexpr int64_t kSeveral = 2;  // elements of each rank

// No more than a rank holds: those that are served last have the fewest, of whatever list.
int64_t least_held(const Target& target, const DeviceMesh& mesh, Shape shape) {
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    const auto& p = target.placements[static_cast<size_t>(d)];
    if (shard_dim(p) < 0) continue;
    auto& n = shape[static_cast<size_t>(shard_dim(p))];
    n = held(p, n, mesh.size(d), mesh.size(d) - 1);  // who is served last
  }
  const auto d = ragged_dim(target.placements);
  if (d < 0) return numel(shape);
  const auto& ragged = std::get<RaggedShard>(target.placements[static_cast<size_t>(d)]);
  const auto ranks = std::ssize(ragged.units) / ragged.lists;
  int64_t least = numel(shape);
  for (int64_t k = 0; k < ragged.lists; ++k) {
    const auto who = ragged.units.begin() + k * ranks;
    least = std::min(least, numel(shape) / block_count(ragged, k) * *std::min_element(who, who + ranks));
  }
  return least;
}

// How it can lack what is needed.
enum class Lack { kCut, kPends, kFlat };

std::vector<Lack> lacks(c10::ScalarType dtype, uint32_t kinds, const Needs& needs) {
  std::vector<Lack> list;
  if (!needs.whole.empty() && (kinds & kShards)) list.insert(list.end(), 2, Lack::kCut);
  if ((needs.no_ragged || !needs.whole.empty()) && (kinds & kRagged)) list.push_back(Lack::kFlat);
  if (needs.no_partial && !reductions_of(dtype, kinds).empty()) list.push_back(Lack::kPends);
  return list;
}

// Without what cannot stand beside `p` on mesh dimension d, and p there.
Target beside(Target others, const Placement& p, size_t d) {
  for (auto& other : others.placements)
    if ((is_partial(p) && is_partial(other)) || (shard_dim(p) >= 0 && shard_dim(other) == shard_dim(p)))
      other = Replicate{};
  others.placements[d] = p;
  return others;
}

Target lacking(Random& random, Lack lack, const Target& others, int64_t d, const DeviceMesh& mesh,
               const Shape& shape, c10::ScalarType dtype, uint32_t kinds, const Needs& needs) {
  if (lack == Lack::kFlat) return with_ragged(random, others, mesh, shape, d);
  Target target = others;
  target.placements[static_cast<size_t>(d)] = Replicate{};
  const auto lacks = [&]() -> Placement {
    if (lack == Lack::kPends) return Partial{random.pick(reductions_of(dtype, kinds))};
    const auto dim = random.pick(needs.whole);
    if ((kinds & kInterleaved) && random.chance(25)) return InterleavedShard{dim, random.between(2, 3)};
    return Shard{dim};
  };
  return beside(std::move(target), lacks(), static_cast<size_t>(d));
}

}  // namespace

std::optional<Target> draw_misplaced(Random& random, const DeviceMesh& mesh, const Shape& shape,
                                     c10::ScalarType dtype, uint32_t kinds, const Needs& needs) {
  std::vector<int64_t> several;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (mesh.size(d) > 1) several.push_back(d);
  auto list = lacks(dtype, kinds, needs);
  if (several.empty() || list.empty()) return std::nullopt;
  random.shuffle(several);
  random.shuffle(list);
  const auto others = draw_target(random, mesh, shape, dtype, kinds & (kShards | kPartials));
  // Tensors are small: what one mesh dimension cuts too finely, another may not.
  for (const auto lack : list)
    for (const auto d : several)
      for (const auto& left : {others, replicated(mesh)}) {
        const auto target = lacking(random, lack, left, d, mesh, shape, dtype, kinds, needs);
        if (least_held(target, mesh, shape) >= kSeveral) return target;
      }
  return std::nullopt;
}

}  // namespace lockstep::generators
