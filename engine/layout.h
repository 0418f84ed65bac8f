// SPDX-License-Identifier: Apache-2.0
// Layout: "a function from a global index to the set of (rank, local index) that hold it."
// Along each tensor dimension a rank holds a list of global indices, kept as intervals in local order; the
// whole is their product. Everything that depends on a rank is derived from these lists.
#pragma once
#include <cstdint>
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
using IndexList = std::vector<Interval>;

int64_t length(const IndexList& list);
// The part [begin, end) of a list, counted in local indices.
IndexList slice(const IndexList& list, int64_t begin, int64_t end);
// The global index of local index i. @pre 0 <= i < length(list)
int64_t global_index(const IndexList& list, int64_t i);

// torch.chunk: piece r of n elements in m pieces is [begin, end).
Interval chunk(int64_t n, int64_t m, int64_t r);

class Layout {
 public:
  // Throws NotBuilt for RaggedShard.
  explicit Layout(const Spec& spec);

  // For each tensor dimension, what the rank at this mesh position holds.
  const std::vector<IndexList>& owned(int64_t position) const {
    return owned_[static_cast<size_t>(position)];
  }
  std::vector<int64_t> local_shape(int64_t position) const;

 private:
  std::vector<std::vector<IndexList>> owned_;
};

// Just one rank's part of a Layout.
std::vector<IndexList> owned_by(const Spec& spec, int64_t position);
std::vector<int64_t> local_shape(const Spec& spec, int64_t position);
// Strides of a local tensor: dense, dimensions in the order of the Spec's global strides; where those overlap
// or leave gaps, in the order of a dense copy, as libtorch's clone makes it.
std::vector<int64_t> local_stride(const Spec& spec, const std::vector<int64_t>& local_shape);

}  // namespace lockstep
