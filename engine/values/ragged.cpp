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

int64_t block_count(const RaggedShard& ragged, int64_t list) {
  const auto ranks = std::ssize(ragged.units) / ragged.lists;
  const auto first = ragged.units.begin() + list * ranks;
  return std::accumulate(first, first + ranks, int64_t{0});
}

int64_t list_at(const RaggedShard& ragged, const DeviceMesh& mesh, int64_t mesh_dim, int64_t position) {
  if (ragged.lists == 1) return 0;
  const auto coordinate = mesh.coordinate(position);
  int64_t list = 0;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (d != mesh_dim) list = list * mesh.size(d) + coordinate[static_cast<size_t>(d)];
  return list;
}

int64_t rows_at(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                const std::vector<int64_t>& shape, size_t leading, int64_t position) {
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
  return std::accumulate(lengths.begin(), end, int64_t{1}, std::multiplies<>());
}

int64_t common_rows(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                    const std::vector<int64_t>& shape, size_t leading) {
  int64_t common = 0;
  for (int64_t position = 0; position < mesh.size(); ++position)
    common = std::gcd(common, rows_at(placements, order, mesh, shape, leading, position));
  return common;
}

int64_t first_of_box(const Placements& placements, const DeviceMesh& mesh, int64_t position) {
  auto coordinate = mesh.coordinate(position);
  for (size_t d = 0; d < coordinate.size(); ++d)
    if (!is_shard(placements[d])) coordinate[d] = 0;
  return mesh.position(coordinate);
}

bool blocks_fit(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                const std::vector<int64_t>& shape) {
  const int64_t dim = ragged_dim(placements);
  if (dim < 0) return true;
  const auto& ragged = std::get<RaggedShard>(placements[static_cast<size_t>(dim)]);
  const auto units = [&](int64_t position) {
    return ragged.units.begin() + list_at(ragged, mesh, dim, position) * mesh.size(dim);
  };
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const auto rows = rows_at(placements, order, mesh, shape, ragged.dims.size(), position);
    if (rows % block_count(ragged, list_at(ragged, mesh, dim, position)) != 0) return false;
    if (ragged.lists == 1) continue;
    const auto first = units(first_of_box(placements, mesh, position));
    if (!std::equal(first, first + mesh.size(dim), units(position))) return false;
  }
  return true;
}

}  // namespace lockstep
