// SPDX-License-Identifier: Apache-2.0
#include "engine/layout.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>

#include "engine/values/error.h"

namespace lockstep {
namespace {

void append(IndexList& list, Interval next) {
  if (next.length == 0) return;
  if (!list.empty() && list.back().start + list.back().length == next.start)
    list.back().length += next.length;
  else
    list.push_back(next);
}

IndexList interleave(const IndexList& list, int64_t parts, int64_t m, int64_t r) {
  const int64_t n = length(list);
  IndexList result;
  for (int64_t j = 0; j < parts; ++j) {
    const auto piece = chunk(n, parts, j);
    const auto share = chunk(piece.length, m, r);
    for (const auto& i : slice(list, piece.start + share.start, piece.start + share.start + share.length))
      append(result, i);
  }
  return result;
}

// Whether the strides are those of some permutation of a contiguous tensor. As in libtorch those of
// dimensions without extent do not matter, and none do where there is no element.
bool is_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) dims.emplace_back(stride[d], shape[d]);
  std::sort(dims.begin(), dims.end());
  int64_t step = 1;
  for (const auto& [s, n] : dims) {
    if (s != step) return false;
    step *= n;
  }
  return true;
}

}  // namespace

int64_t length(const IndexList& list) {
  int64_t n = 0;
  for (const auto& i : list) n += i.length;
  return n;
}

IndexList slice(const IndexList& list, int64_t begin, int64_t end) {
  IndexList result;
  for (const auto& i : list) {
    const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, i.length);
    if (from < to) append(result, {i.start + from, to - from});
    begin -= i.length;
    end -= i.length;
  }
  return result;
}

int64_t global_index(const IndexList& list, int64_t i) {
  for (const auto& interval : list) {
    if (i < interval.length) return interval.start + i;
    i -= interval.length;
  }
  throw Broken(concat("[layout] local index ", i, " is beyond the list"));
}

Interval chunk(int64_t n, int64_t m, int64_t r) {
  const int64_t size = (n + m - 1) / m;
  const int64_t start = std::min(r * size, n);
  return {start, std::min(size, n - start)};
}

std::vector<IndexList> owned_by(const Spec& spec, int64_t position) {
  std::vector<IndexList> owned;
  owned.reserve(spec.shape().size());
  for (const int64_t n : spec.shape()) owned.push_back(n == 0 ? IndexList{} : IndexList{{0, n}});
  const auto& mesh = spec.mesh();
  const auto coordinate = mesh.coordinate(position);
  for (const int64_t mesh_dim : spec.order()) {
    const auto& placement = spec.placements()[static_cast<size_t>(mesh_dim)];
    const int64_t m = mesh.size(mesh_dim), r = coordinate[static_cast<size_t>(mesh_dim)];
    if (const auto* shard = std::get_if<Shard>(&placement)) {
      auto& list = owned[static_cast<size_t>(shard->dim)];
      const auto mine = chunk(length(list), m, r);
      list = slice(list, mine.start, mine.start + mine.length);
    } else if (const auto* strided = std::get_if<InterleavedShard>(&placement)) {
      auto& list = owned[static_cast<size_t>(strided->dim)];
      list = interleave(list, strided->parts, m, r);
    } else if (std::holds_alternative<RaggedShard>(placement)) {
      throw NotBuilt(
          concat("[layout] ", to_string(placement),
                 ": RaggedShard parses but has no layout in this version; use Shard or InterleavedShard"));
    }
  }
  return owned;
}

Layout::Layout(const Spec& spec) {
  owned_.reserve(static_cast<size_t>(spec.mesh().size()));
  for (int64_t p = 0; p < spec.mesh().size(); ++p) owned_.push_back(owned_by(spec, p));
}

std::vector<int64_t> Layout::local_shape(int64_t position) const {
  std::vector<int64_t> shape;
  for (const auto& list : owned(position)) shape.push_back(length(list));
  return shape;
}

std::vector<int64_t> local_shape(const Spec& spec, int64_t position) {
  std::vector<int64_t> shape;
  for (const auto& list : owned_by(spec, position)) shape.push_back(length(list));
  return shape;
}

std::vector<int64_t> local_stride(const Spec& spec, const std::vector<int64_t>& shape) {
  const auto whole = is_dense(spec.shape(), spec.stride())
                         ? spec.stride()
                         : at::infer_dense_strides(spec.shape(), spec.stride());
  // A local that is the whole tensor has its strides to the letter, those of dimensions of size 1 too: some
  // kernels choose by them.
  return shape == spec.shape() ? whole : at::infer_dense_strides(shape, whole);
}

}  // namespace lockstep
