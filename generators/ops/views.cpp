// SPDX-License-Identifier: Apache-2.0
// Makers of views. A view never redistributes, so each one takes an operand whose shards it can keep: a value
// placed so for certain, or a redistribution of one.
#include <numeric>

#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

bool is(const OpTemplate& op, std::string_view name) {
  return op.op == name;
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(static_cast<size_t>(end - begin));
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

// A reshape of the dimensions [begin, end) into others.
struct Regroup {
  int64_t begin = 0, end = 0;
  Shape into;
};

// n = a * b; half of the time with a > 1 where it has such factors.
std::pair<int64_t, int64_t> factors(Random& random, int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t a = 1; a <= n; ++a)
    if (n % a == 0) divisors.push_back(a);
  const auto a = divisors.empty() ? 1 : random.pick(divisors);
  return {a, n / a};
}

Regroup draw_regroup(Random& random, const Shape& shape) {
  const auto ndim = std::ssize(shape);
  if (ndim == 0) return {0, 0, {1}};
  const auto dim = random.below(ndim);
  const auto n = shape[static_cast<size_t>(dim)];
  switch (random.below(3)) {
    case 0: {  // merge some neighbours
      const auto end = random.between(dim + 1, ndim);
      return {dim,
              end,
              {std::accumulate(shape.begin() + dim, shape.begin() + end, int64_t{1}, std::multiplies<>())}};
    }
    case 1: {  // split one
      const auto [a, b] = factors(random, n);
      return {dim, dim + 1, {a, b}};
    }
    default:
      return {dim, dim, {1}};  // insert a dimension of one
  }
}

// Of dimensions merged into one, the first may keep an even Shard.
std::vector<int64_t> affected(const Builder& b, Ref x, const Regroup& regroup) {
  const bool merges = regroup.into.size() == 1 && regroup.end - regroup.begin > 1;
  const auto ranks = b.settings().mesh.size();
  bool even = merges && b.tensor(x).size(regroup.begin) % ranks == 0 && b.tensor(x).numel() > 0;
  if (const auto& placed = b.value(x).placement)
    for (const auto& p : placed->placements) even = even && !is_scattered(p);
  return range(regroup.begin + (even ? 1 : 0), regroup.end);
}

Shape regrouped(const Shape& shape, const Regroup& regroup) {
  Shape result(shape.begin(), shape.begin() + regroup.begin);
  result.insert(result.end(), regroup.into.begin(), regroup.into.end());
  result.insert(result.end(), shape.begin() + regroup.end, shape.end());
  return result;
}

// Each mesh dimension now and then cuts one of the dimensions of a reshape, in one run or in parts; or one
// after another, so that an inner one is cut in outer ones that are; or one has blocks of what the others
// leave.
oracle::Target cut_within(Builder& b, const Shape& shape, const Regroup& regroup) {
  auto target = replicated(b.settings().mesh);
  const bool in_turn = b.random().chance(30);
  auto next = regroup.begin;
  for (auto& p : target.placements) {
    if (!in_turn && !b.random().chance(70)) continue;
    const auto dim = in_turn ? std::exchange(next, std::min(next + 1, regroup.end - 1))
                             : b.random().between(regroup.begin, regroup.end - 1);
    const auto n = shape[static_cast<size_t>(dim)];
    p = Shard{dim};
    if (n > 1 && b.random().chance(30)) p = InterleavedShard{dim, b.random().between(2, n)};
  }
  const auto d = b.random().below(b.settings().mesh.ndim());
  if (!b.random().chance(20)) return target;
  return with_ragged(b.random(), std::move(target), b.settings().mesh, shape, d);
}

// A mesh dimension of three ranks or more; none: there is none.
std::optional<int64_t> of_three_ranks(Random& random, const DeviceMesh& mesh) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (mesh.size(d) > 2) dims.push_back(d);
  return dims.empty() ? std::nullopt : std::optional(random.pick(dims));
}

// Rows that are cut unevenly, and are merged with what is within them where each rank stays with its
// elements: of 5 rows of 2 three ranks hold 4, 4 and 2 elements, as of 10. Others cut what is within.
bool merge_uneven(Builder& b, const OpTemplate& op, int64_t mesh_dim) {
  const auto& mesh = b.settings().mesh;
  const auto ranks = mesh.size(mesh_dim);
  const Shape rows{ranks * b.random().between(2, 3) - 1, b.random().between(2, ranks - 1)};
  auto target = replicated(mesh);
  for (auto& p : target.placements)
    if (b.random().chance(70)) p = Shard{1};
  target.placements[static_cast<size_t>(mesh_dim)] = Shard{0};
  const Ref x =
      b.redistribute(b.operand({.dtypes = op.dtypes, .shape = rows, .fresh = true, .dense = true}), target);
  return emit(b, op, {x, Shape{rows[0] * rows[1]}}, {x});
}

}  // namespace

bool reshape(Builder& b, const OpTemplate& op) {
  if (is(op, "aten::_unsafe_view") && b.random().chance(15))
    if (const auto d = of_three_ranks(b.random(), b.settings().mesh)) return merge_uneven(b, op, *d);
  Ref x = b.operand({.dtypes = op.dtypes});
  const bool strict = is(op, "aten::view") || is(op, "aten::_unsafe_view");
  if (strict && !b.tensor(x).is_contiguous()) {
    if (!b.call("aten::contiguous", {x}, {b.magnitude(x), {}}, false)) return false;
    x = b.results()[0];
  }
  const auto regroup = draw_regroup(b.random(), b.shape(x));
  // One that nobody writes to again may move its operand.
  if (is(op, "aten::_unsafe_view") && regroup.end > regroup.begin && b.random().chance(70))
    x = b.redistribute(x, cut_within(b, b.shape(x), regroup));
  else
    x = b.unsharded(x, affected(b, x, regroup));
  auto shape = regrouped(b.shape(x), regroup);
  if (b.tensor(x).numel() > 0 && !shape.empty() && b.random().chance(20))
    shape[static_cast<size_t>(b.random().below(std::ssize(shape)))] = -1;
  return emit(b, op, {x, shape}, {x});
}

bool flatten(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const auto begin = b.random().below(b.ndim(x)), end = b.random().between(begin, b.ndim(x) - 1);
  x = b.unsharded(x, affected(b, x, {begin, end + 1, {0}}));
  return emit(b, op, {x, begin, end}, {x});
}

bool unflatten(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = b.random().below(b.ndim(x));
  x = b.unsharded(x, {dim});
  const auto [first, second] = factors(b.random(), b.tensor(x).size(dim));
  return emit(b, op, {x, dim, std::vector<int64_t>{first, second}}, {x});
}

bool permute(Builder& b, const OpTemplate& op) {
  const Ref x = b.boxed(b.operand({.dtypes = op.dtypes}));
  auto order = range(0, b.ndim(x));
  b.random().shuffle(order);
  return emit(b, op, {x, order}, {x});
}

bool transpose(Builder& b, const OpTemplate& op) {
  const bool matrix = is(op, "aten::t") || is(op, "aten::t_");
  const Ref x = b.boxed(
      first_operand(b, op, {.dtypes = op.dtypes, .min_dims = matrix ? 0 : 1, .max_dims = matrix ? 2 : 3}));
  if (matrix) return emit(b, op, {x}, {x});
  return emit(b, op, {x, draw_dim(b, b.ndim(x)), draw_dim(b, b.ndim(x))}, {x});
}

bool expand(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .max_dims = 2});
  std::vector<int64_t> ones;
  auto shape = b.shape(x);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) continue;
    ones.push_back(static_cast<int64_t>(d));
    shape[d] = std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 8);
  }
  x = b.unsharded(x, ones);
  if (shape.size() < 3 && b.random().chance(50))
    shape.insert(shape.begin(), std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 8));
  const auto copies = numel(shape) / std::max<int64_t>(b.tensor(x).numel(), 1);
  return b.call(op.op, {x, shape}, {b.magnitude(x), {{static_cast<double>(std::max<int64_t>(copies, 1)), 0}}},
                false);
}

bool squeeze(Builder& b, const OpTemplate& op) {
  const bool all = is(op, "aten::squeeze");
  Ref x = b.operand({.dtypes = op.dtypes});
  std::vector<int64_t> ones;
  for (int64_t d = 0; d < b.ndim(x); ++d)
    if (b.tensor(x).size(d) == 1) ones.push_back(d);
  x = b.unsharded(x, ones);
  if (all) return emit(b, op, {x}, {x});
  const auto dim = ones.empty() ? draw_dim(b, std::max<int64_t>(b.ndim(x), 1)) : b.random().pick(ones);
  if (is(op, "aten::squeeze.dims")) return emit(b, op, {x, std::vector<int64_t>{dim}}, {x});
  return emit(b, op, {x, dim}, {x});
}

bool unsqueeze(Builder& b, const OpTemplate& op) {
  const Ref x = b.boxed(b.operand({.dtypes = op.dtypes, .max_dims = 2}));
  return emit(b, op, {x, b.random().between(-b.ndim(x) - 1, b.ndim(x))}, {x});
}

namespace {

// By steps along a dimension that is cut: pieces of whole numbers of steps keep theirs, other ones have to be
// refused.
bool slice_in_steps(Builder& b, const OpTemplate& op) {
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim());
  const auto step = b.random().between(2, 5), whole = mesh.size(d) * b.random().between(1, 2);
  const bool fits = b.random().chance(60);
  const int64_t n = fits ? whole * step : whole * b.random().between(1, 4);
  Shape shape = {n};
  if (b.random().chance(50)) shape.push_back(b.random().between(1, 3));
  const auto dim = b.random().below(std::ssize(shape));
  std::swap(shape[0], shape[static_cast<size_t>(dim)]);
  const Ref x =
      b.fresh({.dtypes = op.dtypes, .shape = shape, .placement = placed_along(mesh, d, Shard{dim})});
  const auto first = b.random().below(std::min(step, n));
  const bool from_end = b.random().chance(b.settings().refused);
  if (!fits || from_end) {
    if (b.settings().refused == 0) return false;
    b.let_be_refused();
  }
  return emit(b, op, {x, dim, from_end ? first - n : first, None{}, step}, {x});
}

}  // namespace

bool slice(Builder& b, const OpTemplate& op) {
  if (is(op, "aten::slice.Tensor") && !b.is_outside() && b.random().chance(15)) return slice_in_steps(b, op);
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  x = b.unsharded(x, {dim});
  // Nobody can say that a view of nothing must be refused.
  const auto n = b.tensor(x).size(dim), least = b.may_be_refused() ? std::min<int64_t>(n, 1) : 0;
  const auto start = b.random().between(0, n - least);
  if (is(op, "aten::narrow")) return emit(b, op, {x, dim, start, b.random().between(least, n - start)}, {x});
  // By steps, most of all, from one end to the other: then pieces may keep theirs.
  const auto step = b.random().pick<int64_t>({1, 1, 1, 2, 3});
  const bool all = step != 1 && b.random().chance(60);
  const auto first = all ? b.random().below(std::min<int64_t>(step, n + 1 - least)) : start;
  const Arg end = all || b.random().chance(30) ? Arg(None{}) : Arg(b.random().between(first + least, n));
  return emit(b, op, {x, dim, b.random().chance(20) ? first - n : first, end, step}, {x});
}

bool select(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  x = b.unsharded(x, {dim});
  const auto n = b.tensor(x).size(dim);
  return emit(b, op, {x, dim, b.random().between(-n, n - 1)}, {x});
}

bool split(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  const auto n = b.tensor(x).size(dim);
  if (n > 9) return false;  // too many results to read
  x = b.unsharded(x, {dim});
  if (is(op, "aten::unbind.int")) return emit(b, op, {x, dim}, {x});
  if (is(op, "aten::split_with_sizes")) {
    const auto first = b.random().between(0, n), second = b.random().between(0, n - first);
    return emit(b, op, {x, Shape{first, second, n - first - second}, dim}, {x});
  }
  return emit(b, op, {x, b.random().between(is(op, "aten::chunk") ? 1 : (n + 3) / 4, n), dim}, {x});
}

namespace {

// The view that changes nothing, as the derivative of a view that was written to makes it: the tensor as it
// lies, its place in memory said or not.
bool as_it_lies(Builder& b, const OpTemplate& op) {
  const Ref x = b.boxed(b.operand({.dtypes = op.dtypes}));
  const Arg place = b.random().chance(40) ? Arg(b.tensor(x).storage_offset()) : Arg(None{});
  return emit(b, op, {x, b.shape(x), b.tensor(x).strides().vec(), place}, {x});
}

// One element in every `step` of the memory of a whole tensor, as rows or in a row, from some place on; and
// of that another one.
bool window(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  x = b.unsharded(x, range(0, b.ndim(x)), true);
  // Views of views, each of which begins later.
  for (int64_t views = b.random().chance(40) ? 2 : 0; views > 0; --views) {
    const auto n = b.tensor(x).size(0);
    if (n < 2 || !b.tensor(x).is_contiguous()) break;
    const auto start = b.random().between(1, std::min<int64_t>(n - 1, 2));
    if (!emit(b, template_of("aten::slice.Tensor"), {x, int64_t{0}, start, n, int64_t{1}}, {x})) return false;
    x = b.results()[0];
  }
  const int64_t times = b.random().between(1, 2);
  for (int64_t done = 0; done < times; ++done) {
    const at::Tensor t = b.tensor(x);
    if (!t.is_non_overlapping_and_dense() || t.numel() < 2) return done > 0;
    const auto step = b.random().between(1, 2), first = b.random().between(0, t.numel() - 1);
    const auto length = b.random().between(1, (t.numel() - first + step - 1) / step);
    const auto rows = length % 2 == 0 && b.random().chance(50) ? int64_t{2} : int64_t{1};
    const Shape shape = rows == 2 ? Shape{rows, length / rows} : Shape{length};
    const Shape strides = rows == 2 ? Shape{length / rows * step, step} : Shape{step};
    const bool said = first > 0 || b.random().chance(50);
    const Arg place = said ? Arg(t.storage_offset() + first) : Arg(None{});
    if (!emit(b, op, {x, shape, strides, place}, {x})) return done > 0;
    x = b.results()[0];
  }
  return true;
}

}  // namespace

bool as_strided(Builder& b, const OpTemplate& op) {
  return b.random().chance(50) ? as_it_lies(b, op) : window(b, op);
}

bool diagonal(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2});
  std::vector<int64_t> dims = range(0, b.ndim(x));
  b.random().shuffle(dims);
  x = b.unsharded(x, {dims[0], dims[1]});
  const auto second = b.random().chance(25) ? dims[1] - b.ndim(x) : dims[1];
  return emit(b, op, {x, b.random().between(-2, 2), dims[0], second}, {x});
}

bool alias(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = !(op.traits & kNoHistory)});
  return emit(b, op, {x}, {x});
}

}  // namespace lockstep::generators
