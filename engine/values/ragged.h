// SPDX-License-Identifier: Apache-2.0
// RaggedShard among other placements: where it stands, and what it must divide; and what the others leave.
#pragma once
#include "engine/values/device_mesh.h"
#include "engine/values/placement.h"

namespace lockstep {

// The mesh dimension that a RaggedShard cuts; -1: none does.
int64_t ragged_dim(const Placements& placements);
inline bool has_ragged(const Placements& placements) {
  return ragged_dim(placements) >= 0;
}
// Of n indices of the dimension that a shard cuts, how many a rank holds; all of them under what cuts none.
int64_t held(const Placement& p, int64_t n, int64_t ranks, int64_t rank);
// The number of equal blocks that a RaggedShard cuts its rows into, by this list of its units.
int64_t block_count(const RaggedShard& ragged, int64_t list = 0);
// Which of its lists is that of a position of the mesh of which it cuts `mesh_dim`.
int64_t list_at(const RaggedShard& ragged, const DeviceMesh& mesh, int64_t mesh_dim, int64_t position);

// The greatest number that divides the rows of every rank, 0 if no rank has a row: rows are the indices of
// the first `leading` dimensions, flattened, that all placements but RaggedShard leave to a rank. `order` as
// in Spec; empty: left to right.
int64_t common_rows(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                    const std::vector<int64_t>& shape, size_t leading);
// The rows of one rank.
int64_t rows_at(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                const std::vector<int64_t>& shape, size_t leading, int64_t position);
// The first position to which shards leave the same as to this one.
int64_t first_of_box(const Placements& placements, const DeviceMesh& mesh, int64_t position);
// Whether the RaggedShard among the placements, if there is one, is legal beside the others: the number of
// its blocks divides the rows of each rank, and ranks to which the others leave the same have one list.
bool blocks_fit(const Placements& placements, const std::vector<int64_t>& order, const DeviceMesh& mesh,
                const std::vector<int64_t>& shape);

}  // namespace lockstep
