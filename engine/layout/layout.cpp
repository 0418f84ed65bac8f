// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/layout.h"

#include <ATen/ExpandUtils.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "engine/values/error.h"
#include "engine/values/ragged.h"

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

std::vector<int64_t> lengths(const std::vector<IndexList>& lists) {
  std::vector<int64_t> result;
  result.reserve(lists.size());
  for (const auto& list : lists) result.push_back(length(list));
  return result;
}

// Of a box, the elements that the units of a rank, in this list, give it.
Interval share(const std::vector<IndexList>& box, const RaggedShard& ragged, int64_t list, int64_t rank) {
  const int64_t block = c10::multiply_integers(lengths(box)) / block_count(ragged, list);
  const auto first = ragged.units.begin() + list * (std::ssize(ragged.units) / ragged.lists);
  return {block * std::accumulate(first, first + rank, int64_t{0}), block * first[rank]};
}

// Cuts an interval of a box, counted row-major, into boxes: the rest of its first row, whole rows, the
// beginning of its last row; the rows at both ends again by themselves.
class Cutter {
 public:
  Cutter(const std::vector<IndexList>& box, std::vector<Piece>& found)
      : box_(box), row_(contiguous_strides(lengths(box))), prefix_(box), found_(found) {}

  // The elements [begin, end) of the part of the box that prefix_ names of the dimensions before `dim`.
  void cut(size_t dim, int64_t begin, int64_t end) {
    if (begin == end) return;
    const int64_t row = row_[dim];
    const int64_t first = (begin + row - 1) / row, last = end / row;  // whole rows
    if (first > last) return in_row(dim, last, begin - last * row, end - last * row);
    if (begin < first * row) in_row(dim, first - 1, begin - (first - 1) * row, row);
    if (first < last) add(dim, first, last);
    if (last * row < end) in_row(dim, last, 0, end - last * row);
  }

 private:
  void in_row(size_t dim, int64_t row, int64_t begin, int64_t end) {
    prefix_[dim] = slice(box_[dim], row, row + 1);
    cut(dim + 1, begin, end);
  }

  void add(size_t dim, int64_t first, int64_t last) {
    Piece piece{prefix_, start_};
    piece.lists[dim] = slice(box_[dim], first, last);
    for (size_t d = dim + 1; d < box_.size(); ++d) piece.lists[d] = box_[d];
    start_ += c10::multiply_integers(piece.shape());
    found_.push_back(std::move(piece));
  }

  const std::vector<IndexList>& box_;
  const std::vector<int64_t> row_;  // for each dimension, the elements of one of its rows
  std::vector<IndexList> prefix_;
  int64_t start_ = 0;
  std::vector<Piece>& found_;
};

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

IndexList shared_out(const IndexList& list, const Placement& shard, int64_t m, int64_t r) {
  if (const auto* strided = std::get_if<InterleavedShard>(&shard))
    return interleave(list, strided->parts, m, r);
  const auto mine = chunk(length(list), m, r);
  return slice(list, mine.start, mine.start + mine.length);
}

std::vector<int64_t> local_shape(const Owned& owned) {
  if (owned.flat.has_value()) return {owned.flat->length};
  return lengths(owned.lists);
}

int64_t numel(const Owned& owned) {
  return c10::multiply_integers(local_shape(owned));
}

std::vector<int64_t> Piece::shape() const {
  return lengths(lists);
}

std::vector<Piece> pieces(const Owned& owned) {
  std::vector<Piece> found;
  if (numel(owned) == 0) return found;
  if (owned.flat.has_value() && !owned.lists.empty())
    Cutter(owned.lists, found).cut(0, owned.flat->start, owned.flat->start + owned.flat->length);
  else
    found.push_back({owned.lists, 0});
  return found;
}

Owned owned_by(const Spec& spec, int64_t position) {
  std::vector<IndexList> lists;
  lists.reserve(spec.shape().size());
  for (const int64_t n : spec.shape()) lists.push_back(n == 0 ? IndexList{} : IndexList{{0, n}});
  const auto& mesh = spec.mesh();
  const auto coordinate = mesh.coordinate(position);
  for (const int64_t mesh_dim : spec.order()) {
    const auto& placement = spec.placements()[static_cast<size_t>(mesh_dim)];
    if (!is_shard(placement)) continue;
    auto& list = lists[static_cast<size_t>(shard_dim(placement))];
    list = shared_out(list, placement, mesh.size(mesh_dim), coordinate[static_cast<size_t>(mesh_dim)]);
  }
  const int64_t last = ragged_dim(spec.placements());
  if (last < 0) return lists;
  const auto& ragged = std::get<RaggedShard>(spec.placements()[static_cast<size_t>(last)]);
  const auto flat =
      share(lists, ragged, list_at(ragged, mesh, last, position), coordinate[static_cast<size_t>(last)]);
  return {std::move(lists), flat};
}

std::vector<int64_t> local_shape(const Spec& spec, int64_t position) {
  return local_shape(owned_by(spec, position));
}

bool is_flat(const Spec& spec) {
  return has_ragged(spec.placements());
}

std::vector<int64_t> local_stride(const Spec& spec, const std::vector<int64_t>& local_shape) {
  return is_flat(spec) ? contiguous_strides(local_shape) : dense_stride(spec, local_shape);
}

std::vector<int64_t> dense_stride(const Spec& spec, const std::vector<int64_t>& shape) {
  const auto whole = is_dense(spec.shape(), spec.stride())
                         ? spec.stride()
                         : at::infer_dense_strides(spec.shape(), spec.stride());
  // Some kernels choose by the strides of dimensions of one element too: a local that is the whole tensor has
  // its strides to the letter, and a part has those of the dimensions in which the whole has one element.
  if (shape == spec.shape()) return whole;
  auto stride = at::infer_dense_strides(shape, whole);
  for (size_t d = 0; d < shape.size(); ++d)
    if (spec.shape()[d] == 1 && shape[d] == 1) stride[d] = whole[d];
  return stride;
}

}  // namespace lockstep
