// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/mesh_maps.h"

#include <algorithm>

#include "engine/values/text.h"
#include "generators/ops/makers.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::LocalMap;
using oracle::Target;

// How n elements fall to ranks as torch.chunk cuts them.
std::vector<int64_t> pieces(int64_t n, int64_t ranks) {
  std::vector<int64_t> sizes;
  const int64_t most = (n + ranks - 1) / ranks;
  for (int64_t r = 0; r < ranks; ++r) sizes.push_back(std::clamp<int64_t>(n - r * most, 0, most));
  return sizes;
}

// Whether they fall to the ranks of the mesh alike, cut along one dimension after another or at once.
bool falls_alike(int64_t n, const DeviceMesh& mesh) {
  std::vector<int64_t> sizes = {n};
  for (const int64_t ranks : mesh.shape()) {
    std::vector<int64_t> cut;
    for (const int64_t size : sizes)
      for (const int64_t piece : pieces(size, ranks)) cut.push_back(piece);
    sizes = std::move(cut);
  }
  return sizes == pieces(n, mesh.size());
}

class MeshMap {
 public:
  explicit MeshMap(Builder& b) : b_(b), mesh_(b.settings().mesh) {
    map_.flat = b.random().chance(30);
    if (map_.flat) return;
    for (int64_t d = 0; d < mesh_.ndim(); ++d) map_.kept.push_back(d);
    b.random().shuffle(map_.kept);
    map_.kept.resize(static_cast<size_t>(b.random().between(1, mesh_.ndim() - 1)));
    std::sort(map_.kept.begin(), map_.kept.end());
  }

  // One that may fall to all ranks alike, on the flattened mesh; else any.
  std::optional<Shape> shape(int64_t ndim) {
    if (!map_.flat) return std::nullopt;
    Shape shape;
    for (int64_t d = 0; d < ndim; ++d) shape.push_back(b_.random().between(1, 4));
    const int64_t all = mesh_.size();
    shape[static_cast<size_t>(b_.random().below(ndim))] =
        b_.random().pick({all, all, 2 * all, 2 * all - 1, std::max<int64_t>(all - 1, 1)});
    return shape;
  }

  // What ranks that run the op apart have of a tensor.
  Placements drawn(Ref x) {
    return draw_target(b_.random(), mesh_, b_.shape(x), b_.dtype(x), kinds()).placements;
  }
  // The same, and along the dimensions that are kept as drawn.
  Target placed(const Placements& apart, const Shape& shape) {
    if (map_.flat) return {Placements(apart.size(), b_.random().pick(alike(shape))), {}};
    Target target = draw_target(b_.random(), mesh_, shape, c10::ScalarType::Float, kinds());
    target.order.clear();
    for (size_t d = 0; d < apart.size(); ++d)
      if (!keeps(d)) target.placements[d] = apart[d];
    put_kept_last(target);
    return target;
  }
  // The same along kept dimensions, and otherwise with `there` where `where` distributes.
  Target instead(Target target, const Placements& where, const Placement& there) {
    for (size_t d = 0; d < where.size(); ++d)
      if (!keeps(d) && distributes(where[d])) target.placements[d] = there;
    return target;
  }

  void call(const char* op, std::vector<Arg> args, const std::vector<Target>& placed, const Shape& shape,
            const Growth& growth) {
    args.insert(args.begin(), {map_.flat ? std::string("flat") : join(map_.kept, '.'), std::string(op)});
    args.insert(args.end(), placed.begin(), placed.end());
    args.emplace_back(shape);
    b_.call(oracle::kMeshMap.data(), std::move(args), growth);
  }

  bool keeps(size_t d) const { return map_.keeps(static_cast<int64_t>(d)); }

 private:
  uint32_t kinds() const { return b_.settings().placements & ~(kPartials | kRagged); }

  std::vector<Placement> alike(const Shape& shape) const {
    std::vector<Placement> list = {Replicate{}};
    for (size_t d = 0; d < shape.size(); ++d)
      if (falls_alike(shape[d], mesh_)) list.insert(list.end(), 2, Shard{static_cast<int64_t>(d)});
    return list;
  }

  // Where a kept dimension would cut before another one what that cuts too.
  void put_kept_last(Target& target) const {
    const auto& all = target.placements;
    bool early = false;
    for (size_t d = 0; d < all.size(); ++d)
      for (size_t before = 0; before < d; ++before)
        early |=
            is_shard(all[d]) && shard_dim(all[d]) == shard_dim(all[before]) && keeps(before) && !keeps(d);
    if (!early) return;
    for (const bool kept : {false, true})
      for (size_t d = 0; d < all.size(); ++d)
        if (keeps(d) == kept) target.order.push_back(static_cast<int64_t>(d));
  }

  Builder& b_;
  const DeviceMesh& mesh_;
  LocalMap map_;
};

Growth growth_of(const Builder& b, const char* op, const std::vector<Ref>& operands, int64_t count = 1) {
  return grown(b, template_of(op), operands, count);
}

// Each rank has its part of both; NaNs with payloads meet in no op whose kernels choose among them.
void elementwise(Builder& b, MeshMap& map) {
  const auto fixed = map.shape(b.random().between(1, 3));
  const Ref x = b.operand({.dtypes = kNumbers, .shape = fixed, .min_dims = 1});
  const auto apart = map.drawn(x);
  const Shape shape = b.shape(x);
  const Target in = map.placed(apart, shape), out = map.placed(apart, shape);
  if (b.settings().specials || b.random().chance(20))
    return map.call("aten::neg", {x}, {in, in, out}, shape, growth_of(b, "aten::neg", {x}));
  const char* op = b.random().pick({"aten::mul.Tensor", "aten::add.Tensor", "aten::sub.Tensor"});
  const Ref y = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = shape});
  const Target other = map.placed(apart, shape);
  std::vector<Arg> args = {x, y};
  if (std::string_view(op) != "aten::mul.Tensor") args.emplace_back(int64_t{1});
  map.call(op, args, {in, in, other, other, out}, shape, growth_of(b, op, {x, y}));
}

// Of a number that every rank has whole: its gradients are terms.
void times_number(Builder& b, MeshMap& map) {
  const auto fixed = map.shape(2);
  const Ref x = b.operand({.dtypes = kWide, .shape = fixed, .min_dims = 1});
  const Ref y = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{1}});
  const auto apart = map.drawn(x);
  const Target in = map.placed(apart, b.shape(x)), out = map.placed(apart, b.shape(x));
  const Target whole = replicated(b.settings().mesh);
  map.call("aten::mul.Tensor", {x, y}, {in, in, whole, map.instead(whole, apart, Partial{}), out}, b.shape(x),
           growth_of(b, "aten::mul.Tensor", {x, y}));
}

void summed(Builder& b, MeshMap& map) {
  const auto fixed = map.shape(2);
  const Ref x = b.operand({.dtypes = kWide, .shape = fixed, .min_dims = 1});
  const auto apart = map.drawn(x);
  const Target in = map.placed(apart, b.shape(x));
  map.call("aten::sum", {x, None{}}, {in, in, map.instead(replicated(b.settings().mesh), apart, Partial{})},
           {}, growth_of(b, "aten::sum", {x}, b.tensor(x).numel()));
}

// How matrices and their product lie along one mesh dimension, and gradients of the matrices.
struct MatmulRow {
  Placement x, y, product, of_x, of_y;
};

void product(Builder& b, MeshMap& map) {
  const Ref x = b.operand({.dtypes = kWide, .shape = map.shape(2), .min_dims = 2, .max_dims = 2});
  const int64_t n = b.shape(x)[0], k = b.shape(x)[1], m = b.random().between(1, 4);
  const Ref y = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{k, m}});
  const Placement whole = Replicate{}, rows = Shard{0}, columns = Shard{1}, terms = Partial{};
  const std::vector<MatmulRow> table = {{whole, whole, whole, whole, whole},
                                        {rows, whole, rows, rows, terms},
                                        {whole, columns, columns, terms, columns},
                                        {columns, rows, terms, columns, rows}};
  Placements of_x, of_y, of_product, gradient_x, gradient_y;
  for (int64_t d = 0; d < b.settings().mesh.ndim(); ++d) {
    const MatmulRow& row = b.random().pick(table);
    of_x.push_back(row.x);
    of_y.push_back(row.y);
    of_product.push_back(row.product);
    gradient_x.push_back(row.of_x);
    gradient_y.push_back(row.of_y);
  }
  const Target in_x = map.placed(of_x, {n, k}), in_y = map.placed(of_y, {k, m});
  Target back_x = in_x, back_y = in_y;
  for (size_t d = 0; d < of_x.size(); ++d) {
    if (map.keeps(d)) continue;
    back_x.placements[d] = gradient_x[d];
    back_y.placements[d] = gradient_y[d];
  }
  const auto times = [](int64_t count) {
    return Magnitude{static_cast<double>(std::max<int64_t>(count, 1)), 0};
  };
  const Magnitude mx = b.magnitude(x), my = b.magnitude(y);
  map.call("aten::mm", {x, y}, {in_x, back_x, in_y, back_y, map.placed(of_product, {n, m})}, {n, m},
           {mx * my * times(k), {my * times(m), mx * times(n)}, true});
}

}  // namespace

void map_on_meshes(Builder& b) {
  MeshMap map(b);
  if (!b.settings().integer_lane) return elementwise(b, map);
  b.random().weighted<void (*)(Builder&, MeshMap&)>(
      {{3, elementwise}, {1, times_number}, {1, summed}, {2, product}})(b, map);
}

}  // namespace lockstep::generators
