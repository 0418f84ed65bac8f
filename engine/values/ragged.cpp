// SPDX-License-Identifier: Apache-2.0
#include "engine/values/ragged.h"

#include <algorithm>
#include <numeric>

namespace lockstep {
namespace {

int64_t chunk_length(int64_t n, int64_t pieces, int64_t which) {
  const int64_t size = (n + pieces - 1) / pieces;
  return std::clamp<int64_t>(n - which * size, 0, size);
}

}  // namespace

int64_t held(const Placement& p, int64_t n, int64_t ranks, int64_t rank) {
  if (std::holds_alternative<Shard>(p)) return chunk_length(n, ranks, rank);
  const auto* interleaved = std::get_if<InterleavedShard>(&p);
  if (interleaved == nullptr) return n;
  int64_t sum = 0;
  for (int64_t part = 0; part < interleaved->parts; ++part)
    sum += chunk_length(chunk_length(n, interleaved->parts, part), ranks, rank);
  return sum;
}

int64_t ragged_dim(const Placements& placements) {
  const auto found = std::find_if(placements.begin(), placements.end(), is_ragged);
  return found == placements.end() ? -1 : found - placements.begin();
}

int64_t block_count(const RaggedShard& ragged) {
  return std::accumulate(ragged.units.begin(), ragged.units.end(), int64_t{0});
}

int64_t common_rows(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                    const std::vector<int64_t>& shape, size_t leading) {
  int64_t common = 0;
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const auto coordinate = mesh.coordinate(position);
    auto lengths = shape;
    for (int64_t i = 0; i < mesh.ndim(); ++i) {
      const int64_t m = order.empty() ? i : order[static_cast<size_t>(i)];
      const auto& p = placements[static_cast<size_t>(m)];
      if (!is_shard(p)) continue;
      auto& length = lengths[static_cast<size_t>(shard_dim(p))];
      length = held(p, length, mesh.size(m), coordinate[static_cast<size_t>(m)]);
    }
    const auto end = lengths.begin() + static_cast<ptrdiff_t>(leading);
    common = std::gcd(common, std::accumulate(lengths.begin(), end, int64_t{1}, std::multiplies<>()));
  }
  return common;
}

}  // namespace lockstep
