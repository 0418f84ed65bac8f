// SPDX-License-Identifier: Apache-2.0
// Layout: "a function from a global index to the set of (rank, local index) that hold it."
// Along each tensor dimension a rank holds a list of global indices, kept as intervals in local order; the
// whole is their product, a box, or under RaggedShard an interval of the box. Everything that depends on a
// rank is derived from these.
#pragma once
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/values/spec.h"

namespace lockstep {

// [start, start + length) along one tensor dimension.
struct Interval {
  int64_t start = 0;
  int64_t length = 0;
  bool operator==(const Interval&) const = default;
};

// The global indices that a rank holds along one dimension, in local order; adjacent intervals are merged.
// Mostly it is one interval.
using IndexList = c10::SmallVector<Interval, 2>;

int64_t length(const IndexList& list);
// The part [begin, end) of a list, counted in local indices.
IndexList slice(const IndexList& list, int64_t begin, int64_t end);
// The global index of local index i. @pre 0 <= i < length(list)
int64_t global_index(const IndexList& list, int64_t i);

// torch.chunk: piece r of n elements in m pieces is [begin, end).
Interval chunk(int64_t n, int64_t m, int64_t r);

// What a shard leaves of a list at coordinate r of its mesh dimension, of m.
IndexList shared_out(const IndexList& list, const Placement& shard, int64_t m, int64_t r);

// What one rank holds of a tensor.
struct Owned {
  Owned(std::vector<IndexList> box, std::optional<Interval> part = std::nullopt)
      : lists(std::move(box)), flat(part) {}
  // A box: for each tensor dimension the global indices.
  std::vector<IndexList> lists;
  // Of the box's elements, counted row-major, only these; the local tensor is then flat, of one dimension.
  std::optional<Interval> flat;
  bool operator==(const Owned&) const = default;
};
std::vector<int64_t> local_shape(const Owned& owned);
int64_t numel(const Owned& owned);

// A box of elements that lie in the local tensor as a dense row-major box, from its element `start` on: a run
// of a flat local, or any other local as it is (start is 0 then, its strides are its own).
struct Piece {
  std::vector<IndexList> lists;
  int64_t start = 0;
  std::vector<int64_t> shape() const;
};
// Law: the pieces are disjoint, cover what is owned, and follow each other in a flat local. One for a box; at
// most 2n - 1 of a flat interval, n the number of dimensions; none where nothing is owned.
std::vector<Piece> pieces(const Owned& owned);

// What the rank at this mesh position holds. Law: each global element is held by the ranks whose part has it;
// along mesh dimensions that distribute by one of them, along the others by all.
Owned owned_by(const Spec& spec, int64_t position);
std::vector<int64_t> local_shape(const Spec& spec, int64_t position);
// Whether locals are flat: a RaggedShard is among the placements.
bool is_flat(const Spec& spec);
// Strides of a dense tensor of this shape, dimensions in the order of the Spec's global strides; where those
// overlap or leave gaps, in the order of a dense copy, as libtorch's clone makes it.
std::vector<int64_t> dense_stride(const Spec& spec, const std::vector<int64_t>& shape);
// Strides of a local tensor: dense; contiguous if flat.
std::vector<int64_t> local_stride(const Spec& spec, const std::vector<int64_t>& local_shape);

}  // namespace lockstep
