// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/held.h"

#include <algorithm>

#include "engine/layout/route.h"
#include "engine/values/as_size.h"

namespace lockstep {
namespace {

using Coordinate = std::vector<int64_t>;

// One tensor dimension under one Spec: what the rank at a coordinate holds along it.
class Axis {
 public:
  // Of the other tensor dimensions one index is left: what they are cut by is of no interest.
  Axis(const Spec& spec, int64_t dim) : dim_(as_size(dim)), spec_(alone(spec, dim)) {
    for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
      if (shard_dim(spec.placements()[as_size(d)]) == dim) cutters.push_back(d);
    if (cutters.size() == 1) lists_.resize(as_size(spec.mesh().size(cutters[0])));
  }

  std::vector<int64_t> cutters;  // mesh dimensions

  // @post valid until the next call
  const IndexList& at(const Coordinate& coordinate) {
    if (cutters.size() != 1) return now_ = compute(coordinate);
    auto& known = lists_[as_size(coordinate[as_size(cutters[0])])];
    if (!known.has_value()) known = compute(coordinate);
    return *known;
  }

 private:
  static Spec alone(const Spec& spec, int64_t dim) {
    std::vector<int64_t> shape(spec.shape().size(), 1);
    shape[as_size(dim)] = spec.shape()[as_size(dim)];
    auto placements = spec.placements();
    for (auto& p : placements)
      if (shard_dim(p) != dim) p = Replicate{};
    return Spec(spec.mesh(), placements, shape, contiguous_strides(shape), spec.dtype(), spec.order());
  }

  IndexList compute(const Coordinate& coordinate) const {
    return owned_by(spec_, spec_.mesh().position(coordinate)).lists[dim_];
  }

  size_t dim_;
  Spec spec_;
  IndexList now_;
  std::vector<std::optional<IndexList>> lists_;  // by the coordinate along the only cutter
};

int64_t in_common(const IndexList& a, const IndexList& b) {
  int64_t n = 0;
  for (const auto& x : a)
    for (const auto& y : b)
      n +=
          std::max<int64_t>(0, std::min(x.start + x.length, y.start + y.length) - std::max(x.start, y.start));
  return n;
}

// One tensor dimension before and after.
struct Both {
  Axis before, after;
  int64_t at(const Coordinate& c) { return in_common(before.at(c), after.at(c)); }
};

// Tensor dimensions that share mesh dimensions, directly or through others: they are counted together.
struct Knot {
  std::vector<bool> mesh_dims;
  std::vector<Both> axes;
};

void merge(std::vector<Knot>& knots, Knot knot) {
  const auto meets = [&](const Knot& other) {
    for (size_t d = 0; d < knot.mesh_dims.size(); ++d)
      if (knot.mesh_dims[d] && other.mesh_dims[d]) return true;
    return false;
  };
  for (size_t i = knots.size(); i-- > 0;) {
    if (!meets(knots[i])) continue;
    for (size_t d = 0; d < knot.mesh_dims.size(); ++d)
      if (knots[i].mesh_dims[d]) knot.mesh_dims[d] = true;
    std::move(knots[i].axes.begin(), knots[i].axes.end(), std::back_inserter(knot.axes));
    knots.erase(knots.begin() + static_cast<std::ptrdiff_t>(i));
  }
  knots.push_back(std::move(knot));
}

// The next coordinate along the mesh dimensions of a knot; false: there is none.
bool advance(Coordinate& c, const Knot& knot, const DeviceMesh& mesh) {
  for (size_t d = c.size(); d-- > 0;) {
    if (!knot.mesh_dims[d]) continue;
    if (++c[d] < mesh.size(static_cast<int64_t>(d))) return true;
    c[d] = 0;
  }
  return false;
}

int64_t kept_in(Knot& knot, const DeviceMesh& mesh) {
  int64_t total = 0;
  Coordinate c(knot.mesh_dims.size(), 0);
  do {
    int64_t n = 1;
    for (auto& axis : knot.axes)
      if (n != 0) n *= axis.at(c);
    total += n;
  } while (advance(c, knot, mesh));
  return total;
}

int64_t kept_rank_by_rank(const Spec& from, const Spec& to) {
  int64_t n = 0;
  for (int64_t p = 0; p < from.mesh().size(); ++p) n += Moves(from, to).elements(p, p);
  return n;
}

}  // namespace

int64_t held_by_all(const Spec& spec) {
  int64_t n = spec.numel();
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (!distributes(spec.placements()[as_size(d)])) n *= spec.mesh().size(d);
  return n;
}

int64_t kept_by_all(const Spec& from, const Spec& to) {
  if (is_flat(from) || is_flat(to)) return kept_rank_by_rank(from, to);
  const auto& mesh = from.mesh();
  std::vector<Knot> knots;
  for (int64_t dim = 0; dim < from.ndim(); ++dim) {
    Knot knot{std::vector<bool>(as_size(mesh.ndim())), {}};
    knot.axes.push_back({{from, dim}, {to, dim}});
    for (const auto* axis : {&knot.axes[0].before, &knot.axes[0].after})
      for (const int64_t d : axis->cutters) knot.mesh_dims[as_size(d)] = true;
    merge(knots, std::move(knot));
  }
  int64_t n = 1;
  std::vector<bool> counted(as_size(mesh.ndim()));
  for (auto& knot : knots) {
    n *= kept_in(knot, mesh);
    for (size_t d = 0; d < counted.size(); ++d)
      if (knot.mesh_dims[d]) counted[d] = true;
  }
  for (size_t d = 0; d < counted.size(); ++d)
    if (!counted[d]) n *= mesh.size(static_cast<int64_t>(d));
  return n;
}

}  // namespace lockstep
