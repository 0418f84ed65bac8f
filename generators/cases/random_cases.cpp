// SPDX-License-Identifier: Apache-2.0
// Cases of the suite `random`.
#include <algorithm>

#include "generators/cases/programs.h"

namespace lockstep::generators {
namespace {

using oracle::Ref;

struct Choice {
  const RandomOp& op;
  c10::ScalarType dtype;
};
Choice choice(const RandomPoint& point) {
  return {random_ops()[point[kOperatorAxis]], random_dtypes()[point[kDtypeAxis]]};
}

// The first dimension that no mesh dimension cuts and that has elements; -1 if there is none.
int64_t open_dim(const RandomLayout& layout) {
  for (size_t d = 0; d < layout.shape.size(); ++d)
    if (layout.shape[d] > 0 && !shards(layout.target, static_cast<int64_t>(d)))
      return static_cast<int64_t>(d);
  return -1;
}

// A dimension with another before it that is cut, and in how many parts.
std::optional<std::pair<int64_t, int64_t>> inner_cut(const RandomLayout& layout) {
  for (int64_t dim = 1; dim < std::ssize(layout.shape); ++dim) {
    int64_t parts = 1;
    for (size_t m = 0; m < layout.target.placements.size(); ++m)
      if (layout.target.placements[m] == Placement(Shard{dim}))
        parts *= layout.mesh.size(static_cast<int64_t>(m));
    if (parts > 1) return std::pair(dim, parts);
  }
  return std::nullopt;
}

// One index of a dimension before the one that is cut, of as many as there are parts: in memory the rows of a
// part are as far from each other as the whole is long.
Ref selected(Draft& d, oracle::Input input, RandomLayout layout, int64_t dim, int64_t parts) {
  layout.shape.insert(layout.shape.begin() + dim, parts);
  for (auto& p : layout.target.placements)
    if (shard_dim(p) >= dim) p = with_dim(p, shard_dim(p) + 1);
  input.shape = layout.shape;
  const Ref x = d.input(std::move(input), layout.target);
  return d.call("aten::select.int", {x, dim, d.random().below(parts)});
}

// An input, or a view of a larger one: a slice, of which each element, every second or all but the ends are
// taken; one index of many; or its transpose.
Ref lay(Draft& d, const Choice& c, RandomLayout layout, bool viewed) {
  auto& random = d.random();
  oracle::Input input;
  input.dtype = c.dtype;
  const bool partial = has_partial(layout.target);
  input.values = c.op.values(random, c.dtype, partial);
  if (viewed && !has_ragged(layout.target) && random.chance(20))
    if (const auto inner = inner_cut(layout))
      return selected(d, std::move(input), std::move(layout), inner->first, inner->second);
  const auto open = open_dim(layout);
  const bool sliced = viewed && open >= 0 && random.chance(60);
  const auto dims = std::ssize(layout.shape);
  const bool transposed = viewed && !sliced && dims >= 2 && !has_ragged(layout.target);
  int64_t step = 1, start = 0;
  const int64_t length = sliced ? layout.shape[static_cast<size_t>(open)] : 0;
  if (sliced) {
    step = random.between(1, 2);
    start = random.between(0, 2);
    layout.shape[static_cast<size_t>(open)] = start + step * length + random.between(0, 2);
  }
  if (transposed) {
    std::swap(layout.shape[0], layout.shape[static_cast<size_t>(dims - 1)]);
    for (auto& p : layout.target.placements) {
      const auto dim = shard_dim(p);
      if (dim == 0 || dim == dims - 1) p = with_dim(p, dims - 1 - dim);
    }
  }
  input.shape = layout.shape;
  if (random.chance(dims > 2 ? 60 : 30)) input.memory_order = draw_memory_order(random, dims);
  const Ref x = d.input(std::move(input), layout.target);
  if (sliced) return d.call("aten::slice.Tensor", {x, open, start, start + step * (length - 1) + 1, step});
  return transposed ? d.call("aten::transpose.int", {x, int64_t{0}, dims - 1}) : x;
}

Operand add(Draft& d, const RandomPoint& point, const RandomLayout& layout) {
  const auto c = choice(point);
  Operand x{{}, c.dtype, layout.shape, layout.target};
  const bool viewed = c.op.form != RandomForm::kFactory && d.random().chance(35);
  if (c.op.form != RandomForm::kFactory) x.ref = lay(d, c, layout, viewed);
  c.op.call(d, c.op, x);
  return x;
}

bool has_device(const RandomPoint& point, const DeviceModel& device) {
  const auto& devices = random_regimes()[point[kRegimeAxis]].devices;
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

// One operator more, from wherever the stream stands: of a new tensor, or the last one again.
void add_another(Draft& d, const RandomPoint& last, const Operand& x) {
  auto& random = d.random();
  const auto& op = random_ops()[last[kOperatorAxis]];
  if (op.in_place() && random.chance(30)) return op.call(d, op, x);
  for (int tries = 0; tries < 30; ++tries) {
    const auto point = draw_point(random);
    if (!has_device(point, d.device())) continue;
    const auto layout = draw_layout(random, point, &d.mesh());
    if (layout) return static_cast<void>(add(d, point, *layout));
  }
}

}  // namespace

oracle::Case random_point_case(Random random, const RandomPoint& point, int64_t others) {
  auto layout = draw_layout(random, point);
  for (uint64_t again = 0; !layout; ++again) {
    Random other = random.split(again);
    layout = draw_layout(other, point);
  }
  const auto device = random.pick(random_regimes()[point[kRegimeAxis]].devices);
  Draft d(random, layout->mesh, device);
  const auto first = add(d, point, *layout);
  const auto more = d.random().weighted<int64_t>({{2, 0}, {4, 1}, {3, 2}});
  for (int64_t i = 0; i < std::min(more, others); ++i) add_another(d, point, first);
  const auto seed = static_cast<uint64_t>(d.random().below(100000));
  return std::move(d).finish("random", seed);
}

oracle::Case random_suite_case(Random random, uint64_t index) {
  const auto& array = covering_points();
  const bool first_rounds = index < 2 * array.size();
  if (first_rounds || index % 4 == 0) return random_point_case(random, array[index % array.size()]);
  if (index % 4 == 1) return random_case(random);
  Random points = random.split("point");
  return random_point_case(random, draw_point(points));
}

}  // namespace lockstep::generators
