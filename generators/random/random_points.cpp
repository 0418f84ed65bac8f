// SPDX-License-Identifier: Apache-2.0
// The points of the random space that a Case has, read off its calls.
#include <algorithm>

#include "engine/values/ragged.h"
#include "engine/values/spec.h"
#include "generators/random/random_space.h"
#include "generators/space/placements.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

using oracle::Call;
using oracle::Case;
using oracle::Ref;
using oracle::Target;

// A tensor that is an input or a view of one: cut where the input is.
struct Seen {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape;
  Target target;
};
using Known = std::map<int64_t, Seen>;

Known inputs_of(const Case& c) {
  Known known;
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    known[static_cast<int64_t>(i)] = {c.program.inputs[i].dtype, c.program.inputs[i].shape, c.placements[i]};
  return known;
}

int64_t wrapped(int64_t i, int64_t n) {
  return i < 0 ? i + n : i;
}

std::optional<Seen> transpose(Seen x, const Call& call) {
  if (has_ragged(x.target)) return std::nullopt;
  const auto n = std::ssize(x.shape);
  const auto a = wrapped(std::get<int64_t>(call.args[1]), n), b = wrapped(std::get<int64_t>(call.args[2]), n);
  std::swap(x.shape[static_cast<size_t>(a)], x.shape[static_cast<size_t>(b)]);
  for (auto& p : x.target.placements) {
    const auto dim = shard_dim(p);
    if (dim == a || dim == b) p = with_dim(p, a + b - dim);
  }
  return x;
}

// Of a dimension that is not cut.
std::optional<Seen> slice(Seen x, const Call& call) {
  const auto n = std::ssize(x.shape), dim = wrapped(std::get<int64_t>(call.args[1]), n);
  const auto *start = std::get_if<int64_t>(&call.args[2]), *end = std::get_if<int64_t>(&call.args[3]);
  auto& size = x.shape[static_cast<size_t>(dim)];
  for (const auto& p : x.target.placements)
    if (!is_replicate(p) && !is_partial(p) && (shard_dim(p) < 0 || shard_dim(p) == dim)) return std::nullopt;
  const auto from = start ? std::clamp<int64_t>(wrapped(*start, size), 0, size) : 0;
  const auto to = end ? std::clamp<int64_t>(wrapped(*end, size), from, size) : size;
  const auto step = std::get<int64_t>(call.args[4]);
  size = (to - from + step - 1) / step;
  return x;
}

// Of a dimension that is not cut.
std::optional<Seen> select(Seen x, const Call& call) {
  const auto dim = wrapped(std::get<int64_t>(call.args[1]), std::ssize(x.shape));
  x.shape.erase(x.shape.begin() + dim);
  if (has_ragged(x.target)) return std::nullopt;
  for (auto& p : x.target.placements) {
    if (shard_dim(p) == dim) return std::nullopt;
    if (shard_dim(p) > dim) p = with_dim(p, shard_dim(p) - 1);
  }
  return x;
}

// Where a mask says that all ranks hold: what pends is added up first, and blocks are not of its shape.
std::optional<Seen> filled(Seen x) {
  return has_partial(x.target) || has_ragged(x.target) ? std::nullopt : std::optional(std::move(x));
}

std::optional<Seen> result_of(const Call& call, const Known& known) {
  const auto* ref = call.args.empty() ? nullptr : std::get_if<Ref>(&call.args[0]);
  const auto found = ref ? known.find(ref->id) : known.end();
  if (found == known.end()) return std::nullopt;
  if (call.op == "aten::transpose.int") return transpose(found->second, call);
  if (call.op == "aten::slice.Tensor") return slice(found->second, call);
  if (call.op == "aten::select.int") return select(found->second, call);
  if (call.op == "aten::masked_fill.Scalar") return filled(found->second);
  return std::nullopt;
}

// A factory's result, or the first tensor that the call takes.
std::optional<Seen> operand_of(const Call& call, const Known& known) {
  for (const auto& arg : call.args)
    if (const auto* ref = std::get_if<Ref>(&arg)) {
      const auto found = known.find(ref->id);
      return found == known.end() ? std::nullopt : std::optional(found->second);
    }
  Seen made;
  bool placed = false;
  for (const auto& arg : call.args) {
    if (const auto* target = std::get_if<Target>(&arg)) {
      made.target = *target;
      placed = true;
    }
    if (const auto* dtype = std::get_if<c10::ScalarType>(&arg)) made.dtype = *dtype;
    if (const auto* shape = std::get_if<std::vector<int64_t>>(&arg)) made.shape = *shape;
  }
  if (call.op == "aten::randperm") made.shape = {std::get<int64_t>(call.args[0])};
  return placed ? std::optional(made) : std::nullopt;
}

// A dropout that keeps all or nothing.
bool draws_nothing(const Call& call) {
  if (call.op.find("dropout") == std::string::npos) return false;
  const auto* p = std::get_if<double>(&call.args[1]);
  return p != nullptr && (*p == 0 || *p == 1);
}

// Whether the calls before k make the factor of a matrix, with its signs, perhaps transposed.
bool copies_a_factor(const std::vector<Call>& calls, size_t k) {
  constexpr std::array<const char*, 4> kMade = {"aten::mul.Tensor", "aten::sign", "aten::diagonal",
                                                "aten::linalg_qr"};
  if (k > 0 && calls[k - 1].op == "aten::t") --k;
  for (size_t i = 0; i < kMade.size(); ++i)
    if (k < i + 1 || calls[k - i - 1].op != kMade[i]) return false;
  return true;
}

// An initialiser, by the calls that it is made of; else the call's own operator.
std::string name_of(const std::vector<Call>& calls, size_t k) {
  const auto& call = calls[k];
  const auto number = [&](size_t i) { return std::get_if<double>(&call.args[i]); };
  if (call.op == "aten::uniform_" && number(1) && number(2) && *number(1) == -*number(2))
    return k + 1 < calls.size() && calls[k + 1].op == "aten::erfinv_" ? "init.trunc_normal_"
                                                                      : "init.kaiming_uniform_";
  if (call.op == "aten::normal_" && number(1) && number(2) && *number(1) == 0 && *number(2) != 1)
    return "init.xavier_normal_";
  if (call.op == "aten::copy_" && copies_a_factor(calls, k)) return "init.orthogonal_";
  return call.op;
}

// The place of a name on its axis; nullopt for one that is not on it.
std::optional<size_t> place(size_t axis, const std::string& name) {
  const auto& names = axis_values(axis);
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names.begin()));
}

std::optional<RandomPoint> point_of(const Case& c, const std::string& op, const Seen& x) {
  const std::array<std::string, kAxes> names = {op, dtype_name(x.dtype), kind_of(x.target),
                                                evenness(x.target, x.shape, c.mesh),
                                                regime_of(c.device, numel(x.shape))};
  RandomPoint point;
  for (size_t axis = 0; axis < kAxes; ++axis) {
    const auto found = place(axis, names[axis]);
    if (!found) return std::nullopt;
    point[axis] = *found;
  }
  return point;
}

// How many of each number of indices each rank gets.
std::vector<int64_t> cut(const std::vector<int64_t>& pieces, const Placement& p, int64_t ranks) {
  std::vector<int64_t> result;
  for (const auto n : pieces)
    for (int64_t r = 0; r < ranks; ++r) result.push_back(held(p, n, ranks, r));
  return result;
}

}  // namespace

std::string evenness(const RaggedShard& ragged, const std::vector<int64_t>& shape) {
  const auto [least, most] = std::minmax_element(ragged.units.begin(), ragged.units.end());
  if (*least == 0 || std::find(shape.begin(), shape.end(), 0) != shape.end()) return "empty";
  return *least == *most ? "even" : "uneven";
}

std::string evenness(const Target& target, const std::vector<int64_t>& shape, const DeviceMesh& mesh) {
  if (const auto d = ragged_dim(target.placements); d >= 0)
    return evenness(std::get<RaggedShard>(target.placements[static_cast<size_t>(d)]), shape);
  bool any = false, uneven = false, empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> pieces = {shape[d]};
    for (size_t k = 0; k < target.placements.size(); ++k) {
      const auto dim = target.order.empty() ? k : static_cast<size_t>(target.order[k]);
      const auto& p = target.placements[dim];
      if (shard_dim(p) != static_cast<int64_t>(d)) continue;
      pieces = cut(pieces, p, mesh.size(static_cast<int64_t>(dim)));
      any = true;
    }
    const auto [least, most] = std::minmax_element(pieces.begin(), pieces.end());
    uneven = uneven || *least != *most;
    empty = empty || (*least == 0 && shards(target, static_cast<int64_t>(d)));
  }
  return !any ? "-" : empty ? "empty" : uneven ? "uneven" : "even";
}

std::vector<RandomPoint> random_points(const Case& c) {
  std::vector<RandomPoint> points;
  auto known = inputs_of(c);
  auto next = std::ssize(c.program.inputs);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    const auto& call = c.program.calls[k];
    const auto name = name_of(c.program.calls, k);
    if (find_random_op(name) != nullptr && !draws_nothing(call))
      if (const auto x = operand_of(call, known))
        if (const auto point = point_of(c, name, *x)) points.push_back(*point);
    if (auto made = result_of(call, known)) known[next] = *made;
    next += call.results;
  }
  return points;
}

}  // namespace lockstep::generators
