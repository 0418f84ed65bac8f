// SPDX-License-Identifier: Apache-2.0
// An odometer over the dimensions of a shard, fastest in the stream first, joined where both stream and
// memory allow.
#include "engine/random_walk.h"

#include <algorithm>

#include "engine/values/error.h"

namespace lockstep {
namespace {

struct WalkDim {
  IndexList owned;
  int64_t size;  // global
  int64_t rank_stride, local_stride;
};

bool owns_all(const WalkDim& dim) {
  return dim.owned == IndexList{{0, dim.size}};
}

// One dimension of both; the inner one is owned whole, so that the stream runs on from one outer index to the
// next.
WalkDim joined(const WalkDim& inner, const WalkDim& outer) {
  WalkDim result{outer.owned, inner.size * outer.size, inner.rank_stride, inner.local_stride};
  for (Interval& interval : result.owned) {
    interval.start *= inner.size;
    interval.length *= inner.size;
  }
  return result;
}

std::vector<WalkDim> walk_dims(const std::vector<IndexList>& owned, const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& rank_stride,
                               const std::vector<int64_t>& local_stride) {
  std::vector<WalkDim> dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) dims.push_back({owned[d], shape[d], rank_stride[d], local_stride[d]});
  std::stable_sort(dims.begin(), dims.end(),
                   [](const WalkDim& x, const WalkDim& y) { return x.rank_stride < y.rank_stride; });
  std::vector<WalkDim> result;
  for (WalkDim& dim : dims) {
    if (!result.empty() && owns_all(result.back()) &&
        dim.local_stride == result.back().size * result.back().local_stride)
      result.back() = joined(result.back(), dim);
    else
      result.push_back(std::move(dim));
  }
  return result;
}

using Visit = std::function<void(const RandomRun&)>;

void walk(const std::vector<WalkDim>& dims, size_t outer, int64_t first, int64_t offset, const Visit& visit) {
  if (outer == 0) {
    visit({first, 1, offset, 1});
    return;
  }
  const WalkDim& dim = dims[outer - 1];
  int64_t local = 0;
  for (const Interval& interval : dim.owned) {
    const int64_t at = first + interval.start * dim.rank_stride, to = offset + local * dim.local_stride;
    local += interval.length;
    if (outer == 1) {
      if (interval.length > 0) visit({at, interval.length, to, dim.local_stride});
      continue;
    }
    for (int64_t i = 0; i < interval.length; ++i)
      walk(dims, outer - 1, at + i * dim.rank_stride, to + i * dim.local_stride, visit);
  }
}

}  // namespace

void for_each_run(const std::vector<IndexList>& owned, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride,
                  const Visit& visit) {
  if (owned.size() != shape.size() || rank_stride.size() != shape.size() ||
      local_stride.size() != shape.size())
    throw Broken("a shard whose dimensions are not those of the tensor");
  // A dimension of size 1 does not take part in the walk, but a rank may still hold nothing of it.
  for (const IndexList& list : owned)
    if (length(list) == 0) return;
  const std::vector<WalkDim> dims = walk_dims(owned, shape, rank_stride, local_stride);
  walk(dims, dims.size(), 0, 0, visit);
}

}  // namespace lockstep
