// SPDX-License-Identifier: Apache-2.0
#include "generators/random/random_space.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "engine/values/spec.h"
#include "generators/space/meshes.h"
#include "generators/space/placements.h"

namespace lockstep::generators {
namespace {

using oracle::Target;

constexpr c10::ScalarType kDtypes[] = {
    c10::ScalarType::Double, c10::ScalarType::Float, c10::ScalarType::Half,  c10::ScalarType::BFloat16,
    c10::ScalarType::Long,   c10::ScalarType::Int,   c10::ScalarType::Short, c10::ScalarType::Char,
    c10::ScalarType::Byte,   c10::ScalarType::Bool};

using MeshDims = std::vector<size_t>;
using Dims = std::vector<int64_t>;

Target whole(Random&, const Target& t, const MeshDims&, const Dims&) {
  return t;
}
Target shard(Random&, const Target& replicated, const MeshDims& mesh, const Dims& dims) {
  Target t = replicated;
  for (size_t i = 0; i < mesh.size(); ++i) t.placements[mesh[i]] = Shard{dims[std::min(i, dims.size() - 1)]};
  return t;
}
// In the order of the mesh, or the other.
Target nested(Random& random, const Target& replicated, const MeshDims& mesh, const Dims& dims) {
  Target t = shard(random, replicated, mesh, dims);
  if (!random.chance(40)) return t;
  t.order.resize(t.placements.size());
  std::iota(t.order.begin(), t.order.end(), 0);
  std::swap(t.order[mesh[0]], t.order[mesh[1]]);
  return t;
}
Target interleaved(Random& random, const Target& replicated, const MeshDims& mesh, const Dims& dims) {
  Target t = replicated;
  t.placements[mesh[0]] = InterleavedShard{dims[0], random.between(2, 3)};
  return t;
}
Target pending(Random& random, const Target& replicated, const MeshDims& mesh, const Dims&) {
  Target t = replicated;
  t.placements[mesh.back()] = Partial{random.pick({ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMax})};
  return t;
}
Target shard_beside_pending(Random& random, const Target& replicated, const MeshDims& mesh,
                            const Dims& dims) {
  return pending(random, shard(random, replicated, {mesh[0]}, dims), mesh, dims);
}
// Of the dimensions up to the one that is cut; its units are drawn once the mesh is known.
Target ragged(Random&, const Target& replicated, const MeshDims& mesh, const Dims& dims) {
  Target t = replicated;
  RaggedShard placed;
  for (int64_t d = 0; d <= dims[0]; ++d) placed.dims.push_back(d);
  t.placements[mesh[0]] = placed;
  return t;
}

// The flag says Partial.
const RandomPlacement kPlacements[] = {
    {"R", 0, 0, false, whole},       {"S", 1, 1, false, shard},
    {"S+S", 2, 2, false, shard},     {"S*S", 2, 1, false, nested},
    {"I", 1, 1, false, interleaved}, {"G", 1, 1, false, ragged},
    {"P", 1, 0, true, pending},      {"S+P", 2, 1, true, shard_beside_pending}};

const RandomRegime kRegimes[] = {{"no elements", {{1, 256}, {2, 512}, {132, 2048}}, 0, 0},
                                 {"1x256: one block, a word a thread", {{1, 256}}, 1, 256},
                                 {"1x256: several words a thread", {{1, 256}}, 257, 1024},
                                 {"1x256: several draws a thread", {{1, 256}}, 1025, 2600},
                                 {"small grid, part of it", {{2, 512}, {3, 1024}}, 1, 600},
                                 {"small grid, several draws", {{2, 512}}, 4097, 5200},
                                 {"132x2048: part of the grid", {{132, 2048}}, 1, 1500},
                                 // From 30,084 on a permutation's keys have more than 32 bits.
                                 {"keys of more than 32 bits",
                                  {{132, 2048}, {2, 512}},
                                  30084,
                                  32768,
                                  /*only_permutations=*/true}};

constexpr const char* kEvenness[] = {"-", "even", "uneven", "empty"};
constexpr const char* kAxisNames[] = {"operator", "dtype", "placement", "evenness", "device-model regime"};

const RandomOp& op_of(const RandomPoint& p) {
  return random_ops()[p[kOperatorAxis]];
}
const RandomPlacement& placement_of(const RandomPoint& p) {
  return kPlacements[p[kPlacementAxis]];
}

// Blocks of a RaggedShard for each rank: alike, unlike, or none for some.
void draw_units(Random& random, Target& target, const DeviceMesh& mesh) {
  const auto d = ragged_dim(target.placements);
  if (d < 0) return;
  auto& units = std::get<RaggedShard>(target.placements[static_cast<size_t>(d)]).units;
  units.assign(static_cast<size_t>(mesh.size(d)), 1);
  if (random.chance(30)) return;
  const int64_t least = random.chance(50) ? 0 : 1;
  for (auto& unit : units) unit = random.between(least, 3);
  units[static_cast<size_t>(random.below(mesh.size(d)))] += 1;
}

int64_t parts_of(const Target& target, const DeviceMesh& mesh, int64_t dim) {
  int64_t pieces = 1;
  for (size_t d = 0; d < target.placements.size(); ++d) {
    const auto& p = target.placements[d];
    if (const auto* blocks = std::get_if<RaggedShard>(&p); blocks && blocks->dims.back() == dim)
      pieces *= block_count(*blocks);
    if (shard_dim(p) != dim) continue;
    pieces *= mesh.size(static_cast<int64_t>(d)) * parts(p);
  }
  return pieces;
}

int64_t size_for(Random& random, const std::string& wanted, int64_t parts, int64_t least, int64_t most) {
  if (wanted == "empty") return random.between(1, std::max<int64_t>(parts - 1, 1));
  const auto low = std::max<int64_t>(least / parts, 1),
             high = std::max(low, std::min(most / parts, low + 40));
  const auto whole_parts = parts * random.between(low, least > 1 ? high : std::min<int64_t>(high, 3));
  return wanted == "even" || parts < 2 ? whole_parts : whole_parts - random.between(1, parts - 1);
}

// Sizes of the dimensions that are not cut, so that the whole has `least` to `most` elements, if they can.
void fill(Random& random, std::vector<int64_t>& shape, const std::vector<size_t>& open, int64_t least,
          int64_t most) {
  const int64_t held = numel(shape);
  if (open.empty() || held == 0 || held > most) return;
  const int64_t low = (least + held - 1) / held, high = most / held;
  int64_t left = random.between(low, low > 1 ? high : random.between(low, high));
  for (size_t i = 0; i + 1 < open.size(); ++i) {
    shape[open[i]] = random.between(1, std::min<int64_t>(5, left));
    left = (left + shape[open[i]] - 1) / shape[open[i]];
  }
  shape[open.back()] = left;
}

// One try: what it gives need not be the point's.
std::optional<RandomLayout> try_layout(Random& random, const RandomPoint& point, const DeviceMesh* given) {
  const auto& op = op_of(point);
  const auto& placement = placement_of(point);
  const auto& regime = kRegimes[point[kRegimeAxis]];
  RandomLayout made{given ? *given : draw_mesh(random), {}, {}};
  MeshDims mesh_dims;
  for (size_t d = 0; d < made.mesh.shape().size(); ++d)
    if (made.mesh.shape()[d] > 1) mesh_dims.push_back(d);
  random.shuffle(mesh_dims);
  const auto fewest = std::max(op.min_dims, placement.tensor_dims);
  if (std::ssize(mesh_dims) < placement.mesh_dims || fewest > op.max_dims) return std::nullopt;
  mesh_dims.resize(static_cast<size_t>(placement.mesh_dims));
  std::sort(mesh_dims.begin(), mesh_dims.end());
  made.shape.assign(static_cast<size_t>(random.between(fewest, op.max_dims)), 1);
  Dims dims(made.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  random.shuffle(dims);
  const auto cut = static_cast<size_t>(placement.tensor_dims);
  made.target = placement.make(random, replicated(made.mesh), mesh_dims,
                               {dims.begin(), dims.begin() + static_cast<ptrdiff_t>(cut)});
  draw_units(random, made.target, made.mesh);
  // Its blocks are equal whatever the ranks get of them.
  const auto* evenly = has_ragged(made.target) ? "even" : kEvenness[point[kEvennessAxis]];
  std::vector<size_t> open;
  for (size_t i = cut; i < dims.size(); ++i) open.push_back(static_cast<size_t>(dims[i]));
  for (size_t i = 0; i < cut; ++i) {
    const bool alone = cut == 1 && open.empty();
    made.shape[static_cast<size_t>(dims[i])] =
        size_for(random, i == 0 ? evenly : "even", parts_of(made.target, made.mesh, dims[i]),
                 alone ? regime.least : 1, regime.most);
  }
  if (regime.most == 0) {
    fill(random, made.shape, open, 1, 60);
    if (!dims.empty()) made.shape[open.empty() ? static_cast<size_t>(dims[0]) : random.pick(open)] = 0;
  } else {
    fill(random, made.shape, open, regime.least, regime.most);
    // As many as there are parts: then strides of a part may fit to one another though memory is permuted.
    if (cut == 1 && open.size() > 1 && random.chance(20))
      made.shape[random.pick(open)] = parts_of(made.target, made.mesh, dims[0]);
  }
  return made;
}

bool fits(const RandomLayout& layout, const RandomPoint& point) {
  const auto& regime = kRegimes[point[kRegimeAxis]];
  const auto elements = numel(layout.shape);
  if (op_of(point).needs_last() && layout.shape.back() == 0) return false;
  if (std::ssize(layout.shape) > op_of(point).most_dims(layout.target)) return false;
  return elements >= regime.least && elements <= regime.most &&
         elements <= op_of(point).most_elements(kDtypes[point[kDtypeAxis]]) &&
         evenness(layout.target, layout.shape, layout.mesh) == kEvenness[point[kEvennessAxis]];
}

bool has_shape(const RandomPoint& point) {
  using Key = std::array<int64_t, 8>;
  thread_local std::map<Key, bool> known;
  const auto& op = op_of(point);
  const Key key{op.min_dims,
                op.max_dims,
                op.most_dims({{RaggedShard{}}, {}}),
                op.needs_last() ? 1 : 0,
                op.most_elements(kDtypes[point[kDtypeAxis]]),
                static_cast<int64_t>(point[kPlacementAxis]),
                static_cast<int64_t>(point[kEvennessAxis]),
                static_cast<int64_t>(point[kRegimeAxis])};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  Random random(1);
  return known[key] = draw_layout(random, point).has_value();
}

}  // namespace

std::span<const c10::ScalarType> random_dtypes() {
  return kDtypes;
}
std::span<const RandomPlacement> random_placements() {
  return kPlacements;
}
std::span<const RandomRegime> random_regimes() {
  return kRegimes;
}

const std::vector<std::string>& axis_values(size_t axis) {
  static const auto names = [] {
    std::array<std::vector<std::string>, kAxes> all;
    for (const auto& op : random_ops()) all[kOperatorAxis].emplace_back(op.name);
    for (const auto dtype : kDtypes) all[kDtypeAxis].push_back(dtype_name(dtype));
    for (const auto& p : kPlacements) all[kPlacementAxis].emplace_back(p.name);
    for (const auto* e : kEvenness) all[kEvennessAxis].emplace_back(e);
    for (const auto& r : kRegimes) all[kRegimeAxis].emplace_back(r.name);
    return all;
  }();
  return names.at(axis);
}

const char* axis_name(size_t axis) {
  return kAxisNames[axis];
}

std::string kind_of(const Target& target) {
  int64_t shards = 0, partials = 0;
  std::string scattered;  // the kind
  std::vector<int64_t> dims;
  for (const auto& p : target.placements) {
    shards += std::holds_alternative<Shard>(p) ? 1 : 0;
    if (is_scattered(p)) scattered = kind(p);
    partials += is_partial(p) ? 1 : 0;
    if (is_shard(p)) dims.push_back(shard_dim(p));
  }
  std::sort(dims.begin(), dims.end());
  const bool same = std::adjacent_find(dims.begin(), dims.end()) != dims.end();
  if (partials > 0) return dims.empty() ? "P" : "S+P";
  if (has_ragged(target)) return "G";
  if (!scattered.empty()) return scattered;
  return same ? "S*S" : shards > 1 ? "S+S" : shards == 1 ? "S" : "R";
}

std::string regime_of(const DeviceModel& device, int64_t elements) {
  for (const auto& r : kRegimes)
    if (elements >= r.least && elements <= r.most &&
        std::find(r.devices.begin(), r.devices.end(), device) != r.devices.end())
      return r.name;
  return "";
}

std::optional<RandomLayout> draw_layout(Random& random, const RandomPoint& point, const DeviceMesh* mesh) {
  constexpr int kTries = 400;
  for (int i = 0; i < kTries; ++i)
    if (auto made = try_layout(random, point, mesh); made && fits(*made, point)) return made;
  return std::nullopt;
}

Absent absent(const RandomPoint& point) {
  const auto& op = op_of(point);
  const bool cuts = placement_of(point).tensor_dims > 0;
  if (!(op.dtypes & bit_of(kDtypes[point[kDtypeAxis]]))) return Absent::kDtype;
  if (placement_of(point).partial && (op.in_place() || kDtypes[point[kDtypeAxis]] == c10::ScalarType::Bool))
    return Absent::kPartial;
  if (cuts != (point[kEvennessAxis] != 0)) return Absent::kNothingCut;
  if (kRegimes[point[kRegimeAxis]].only_permutations && !op.permutes()) return Absent::kNoKeys;
  return has_shape(point) ? Absent::kNo : Absent::kNoShape;
}

const char* reason(Absent why) {
  static constexpr std::array kReasons = {
      "exists",
      "stock does not fill this dtype",
      "an in-place operator does not move its tensor, and bools have no reductions",
      "evenness is of dimensions that are cut",
      "only a permutation has keys",
      "no shape of the operator's is so",
  };
  return kReasons.at(static_cast<size_t>(why));
}

RandomPoint draw_point(Random& random) {
  for (;;) {
    RandomPoint point;
    for (size_t axis = 0; axis < kAxes; ++axis)
      point[axis] = static_cast<size_t>(random.below(static_cast<int64_t>(axis_values(axis).size())));
    if (absent(point) == Absent::kNo) return point;
  }
}

}  // namespace lockstep::generators
