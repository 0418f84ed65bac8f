// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/held.h"

#include <algorithm>

#include "engine/layout/standing.h"
#include "engine/values/as_size.h"

namespace lockstep {
namespace {

using Coordinate = std::vector<int64_t>;

// One tensor dimension under one Spec: what the rank at a coordinate holds along it.
class Axis {
 public:
  Axis(const Spec& spec, int64_t dim) : spec_(&spec), left_(1) {
    if (const int64_t n = spec.shape()[as_size(dim)]; n > 0) left_[0].push_back({0, n});
    for (const int64_t d : spec.order())
      if (shard_dim(spec.placements()[as_size(d)]) == dim) cutters.push_back(d);
    left_.resize(cutters.size() + 1);
    at_.assign(cutters.size(), -1);
  }

  std::vector<int64_t> cutters;  // mesh dimensions, in the order in which they are applied

  // Cuts anew only from the first cutter on along which the coordinate is not that of the call before.
  // @post valid until the next call
  const IndexList& at(const Coordinate& coordinate) {
    size_t k = 0;
    while (k < cutters.size() && at_[k] == coordinate[as_size(cutters[k])]) ++k;
    for (; k < cutters.size(); ++k) {
      const size_t d = as_size(cutters[k]);
      at_[k] = coordinate[d];
      left_[k + 1] = shared_out(left_[k], spec_->placements()[d], spec_->mesh().size(cutters[k]), at_[k]);
    }
    return left_.back();
  }

 private:
  const Spec* spec_;
  std::vector<IndexList> left_;  // [k]: by the first k cutters, at
  Coordinate at_;                // these coordinates along them
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

// The next coordinate along these mesh dimensions; false: there is none.
bool advance(Coordinate& c, const std::vector<bool>& mesh_dims, const DeviceMesh& mesh) {
  for (size_t d = c.size(); d-- > 0;) {
    if (!mesh_dims[d]) continue;
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
  } while (advance(c, knot.mesh_dims, mesh));
  return total;
}

int64_t in_common(const Piece& a, const Piece& b) {
  int64_t n = 1;
  for (size_t dim = 0; dim < a.lists.size() && n > 0; ++dim) n *= in_common(a.lists[dim], b.lists[dim]);
  return n;
}

// By the ranks at these positions.
int64_t in_common(const Spec& from, int64_t position, const Spec& to, int64_t there) {
  int64_t n = 0;
  const auto before = pieces(owned_by(from, position)), after = pieces(owned_by(to, there));
  for (const auto& a : before)
    for (const auto& b : after) n += in_common(a, b);
  return n;
}

// Along these mesh dimensions, coordinate by coordinate.
int64_t kept_one_by_one(const Spec& from, const Spec& to, const std::vector<bool>& mesh_dims) {
  int64_t total = 0;
  Coordinate c(mesh_dims.size(), 0);
  do {
    const int64_t p = from.mesh().position(c);
    total += in_common(from, p, to, p);
  } while (advance(c, mesh_dims, from.mesh()));
  return total;
}

int64_t kept_rank_by_rank(const Spec& from, const Spec& to) {
  int64_t total = 0;
  const auto there = standing_in(to.mesh(), from.mesh());
  for (int64_t p = 0; p < from.mesh().size(); ++p)
    if (there[as_size(p)] >= 0) total += in_common(from, p, to, there[as_size(p)]);
  return total;
}

// As often as there are coordinates along all other mesh dimensions.
int64_t along_others(int64_t n, const std::vector<bool>& mesh_dims, const DeviceMesh& mesh) {
  for (size_t d = 0; d < mesh_dims.size(); ++d)
    if (!mesh_dims[d]) n *= mesh.size(static_cast<int64_t>(d));
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
  const auto& mesh = from.mesh();
  if (mesh != to.mesh()) return kept_rank_by_rank(from, to);
  std::vector<bool> counted(as_size(mesh.ndim()));
  if (is_flat(from) || is_flat(to)) {
    for (size_t d = 0; d < counted.size(); ++d)
      counted[d] = distributes(from.placements()[d]) || distributes(to.placements()[d]);
    return along_others(kept_one_by_one(from, to, counted), counted, mesh);
  }
  std::vector<Knot> knots;
  for (int64_t dim = 0; dim < from.ndim(); ++dim) {
    Knot knot{std::vector<bool>(as_size(mesh.ndim())), {}};
    knot.axes.push_back({{from, dim}, {to, dim}});
    for (const auto* axis : {&knot.axes[0].before, &knot.axes[0].after})
      for (const int64_t d : axis->cutters) knot.mesh_dims[as_size(d)] = true;
    merge(knots, std::move(knot));
  }
  int64_t n = 1;
  for (auto& knot : knots) {
    n *= kept_in(knot, mesh);
    for (size_t d = 0; d < counted.size(); ++d)
      if (knot.mesh_dims[d]) counted[d] = true;
  }
  return along_others(n, counted, mesh);
}

}  // namespace lockstep
