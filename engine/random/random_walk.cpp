// SPDX-License-Identifier: Apache-2.0
// The dimensions of a shard, fastest in the stream first, joined where both stream and memory allow.
#include "engine/random/random_walk.h"

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

// In the order of the stream; which pieces of a list come in another order is rare, but their places are
// known.
std::vector<StreamPiece> stream_pieces(const IndexList& list) {
  std::vector<StreamPiece> result;
  int64_t local = 0;
  for (const Interval& interval : list) {
    if (interval.length > 0) result.push_back({interval.start, interval.length, local});
    local += interval.length;
  }
  std::sort(result.begin(), result.end(),
            [](const StreamPiece& x, const StreamPiece& y) { return x.start < y.start; });
  return result;
}

}  // namespace

StreamImage stream_image(const Owned& owned, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride) {
  const size_t local_dims = owned.flat.has_value() ? 1 : shape.size();
  if (owned.lists.size() != shape.size() || rank_stride.size() != shape.size() ||
      local_stride.size() != local_dims)
    throw Broken("a shard whose dimensions are not those of the tensor");
  StreamImage image;
  for (const Piece& piece : pieces(owned)) {
    auto stride = local_stride;
    StreamBox& box = image.emplace_back();
    if (owned.flat.has_value()) {
      stride = contiguous_strides(piece.shape());
      for (auto& step : stride) step *= local_stride[0];
      box.offset = piece.start * local_stride[0];
    }
    for (const WalkDim& dim : walk_dims(piece.lists, shape, rank_stride, stride))
      box.dims.push_back({stream_pieces(dim.owned), dim.rank_stride, dim.local_stride});
    if (box.dims.empty()) box.dims.push_back({{{0, 1, 0}}});
  }
  return image;
}

void for_each_run(const Owned& owned, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride,
                  const std::function<void(const StreamRun&)>& visit) {
  const StreamImage image = stream_image(owned, shape, rank_stride, local_stride);
  for (const StreamBox& box : image)
    for (RunCursor cursor({&box, 1}); !cursor.done(); cursor.next()) visit(cursor.run());
}

}  // namespace lockstep
