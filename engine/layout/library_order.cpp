// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/library_order.h"

#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <span>

#include "engine/values/as_size.h"

namespace lockstep {
namespace {

using Kind = ReductionOrder::Kind;
using Node = ReductionOrder::Node;

constexpr int64_t kMostInSegment = 1 << 20;  // bytes that Gloo sends at once

int64_t up(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

// Calls f(global, local) for each element of a box, both counted row-major.
template <class F>
void each_element(const std::vector<IndexList>& lists, const std::vector<int64_t>& shape, const F& f,
                  size_t dim = 0, int64_t global = 0, int64_t local = 0) {
  if (dim == lists.size()) return f(global, local);
  const int64_t n = length(lists[dim]);
  int64_t i = 0;
  for (const auto& part : lists[dim])
    for (int64_t k = 0; k < part.length; ++k, ++i)
      each_element(lists, shape, f, dim + 1, global * shape[dim] + part.start + k, local * n + i);
}

// Where the elements of one rank's local stand in the buffer that is reduced.
class Buffer {
 public:
  Buffer(const Step& step, const std::vector<int64_t>& local_shape)
      : ranks_(step.from->mesh().size(step.mesh_dim)), elements_(c10::multiply_integers(local_shape)) {
    if (step.kind != StepKind::kReduceScatter || is_flat(*step.to)) return;
    const auto dim = as_size(shard_dim(step.to->placements()[as_size(step.mesh_dim)]));
    const auto piece = padded_piece(local_shape, static_cast<int64_t>(dim), ranks_);
    length_ = local_shape[dim];
    in_piece_ = piece[dim];
    inner_ = 1;
    for (size_t d = dim + 1; d < piece.size(); ++d) inner_ *= piece[d];
    piece_ = c10::multiply_integers(piece);
    elements_ = ranks_ * piece_;
  }

  int64_t elements() const { return elements_; }
  int64_t at(int64_t local) const {
    if (piece_ == 0) return local;
    const int64_t inner = local % inner_, along = local / inner_ % length_, outer = local / inner_ / length_;
    return along / in_piece_ * piece_ + (outer * in_piece_ + along % in_piece_) * inner_ + inner;
  }

 private:
  int64_t ranks_, elements_;
  int64_t length_ = 0, in_piece_ = 0, inner_ = 0, piece_ = 0;  // of a reduce-scatter
};

// Of each global element the chunk of the buffer in which this step reduces it.
std::vector<int64_t> chunks(const Step& step) {
  const Spec& from = *step.from;
  const auto size = static_cast<int64_t>(c10::elementSize(from.dtype()));
  const int64_t ranks = from.mesh().size(step.mesh_dim);
  std::vector<int64_t> found(as_size(c10::multiply_integers(from.shape())));
  for (int64_t p = 0; p < from.mesh().size(); ++p) {
    const auto owned = owned_by(from, p);
    const auto local = local_shape(owned);
    const Buffer buffer(step, local);
    if (buffer.elements() == 0) continue;
    const int64_t chunk = ring_chunk(buffer.elements(), size, ranks);
    for (const auto& piece : pieces(owned))
      each_element(piece.lists, from.shape(), [&](int64_t global, int64_t index) {
        found[as_size(global)] = buffer.at(piece.start + index) / chunk;
      });
  }
  return found;
}

// The ring along the last of `steps` of the rings along those before. @param starts the chunk in each.
Node ring(const Spec& spec, const std::vector<int64_t>& group, std::span<const Step* const> steps,
          std::span<const int64_t> starts, int64_t rank) {
  Node node;
  node.rank = rank;
  if (steps.empty()) return node;
  const int64_t dim = steps.back()->mesh_dim, size = spec.mesh().size(dim);
  const auto op = std::get<Partial>(spec.placements()[as_size(dim)]).op;
  int64_t stride = 1;
  for (const int64_t d : group) stride *= d > dim ? spec.mesh().size(d) : 1;
  const bool average = op == ReduceOp::kAvg;
  node = {Kind::kRing, 0, 0, average ? ReduceOp::kSum : op, spec.dtype(), average ? size : 1, {}};
  const size_t before = steps.size() - 1;
  for (int64_t hop = 1; hop <= size; ++hop) {
    const int64_t c = (starts.back() + size - hop) % size;
    node.children.push_back(ring(spec, group, steps.first(before), starts.first(before), rank + c * stride));
  }
  return node;
}

}  // namespace

bool reduced_by_library(const Spec& spec) {
  constexpr std::array kHas = {c10::ScalarType::Float,    c10::ScalarType::Double, c10::ScalarType::Half,
                               c10::ScalarType::BFloat16, c10::ScalarType::Char,   c10::ScalarType::Byte,
                               c10::ScalarType::Int,      c10::ScalarType::Long};
  return std::find(kHas.begin(), kHas.end(), spec.dtype()) != kHas.end();
}

int64_t ring_chunk(int64_t elements, int64_t element_size, int64_t ranks) {
  const int64_t segments = up(std::max(up(elements * element_size, kMostInSegment), 2 * ranks), ranks);
  return up(elements, segments * ranks) * segments;
}

std::vector<int64_t> padded_piece(std::vector<int64_t> local_shape, int64_t dim, int64_t ranks) {
  local_shape[as_size(dim)] = up(local_shape[as_size(dim)], ranks);
  return local_shape;
}

ReductionOrder order_by_library(const Route& route) {
  std::vector<const Step*> steps;
  for (const auto& s : route.steps)
    if (s.kind == StepKind::kAllReduce || s.kind == StepKind::kReduceScatter) steps.push_back(&s);
  ReductionOrder order;
  if (steps.empty()) return order;
  std::vector<std::vector<int64_t>> starts(as_size(c10::multiply_integers(route.from->shape())));
  for (const Step* s : steps) {
    order.mesh_dims.push_back(s->mesh_dim);
    const auto found = chunks(*s);
    for (size_t e = 0; e < found.size(); ++e) starts[e].push_back(found[e]);
  }
  if (starts.empty()) starts.emplace_back(steps.size());  // nothing to reduce, and still declared
  std::sort(order.mesh_dims.begin(), order.mesh_dims.end());
  for (size_t e = 0; e < starts.size(); ++e)
    if (e == 0 || starts[e] != starts[e - 1])
      order.slices.push_back(
          {static_cast<int64_t>(e), ring(*route.from, order.mesh_dims, steps, starts[e], 0)});
  return order;
}

}  // namespace lockstep
