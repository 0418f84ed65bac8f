// SPDX-License-Identifier: Apache-2.0
// The space of the suite `random`: operators, dtypes, placements, evenness and what the device model makes of
// the size. Which points of it exist, an array of points that meets every pair of two axes, and the points
// that a Case has.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generators/random/random_ops.h"
#include "generators/space/random.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// Positions in the tables below, in the order of kAxes.
using RandomPoint = std::array<size_t, 5>;
enum RandomAxis : size_t { kOperatorAxis, kDtypeAxis, kPlacementAxis, kEvennessAxis, kRegimeAxis, kAxes };

// How an operand lies on the mesh. To add one: a line in the table, and its name in kind_of.
struct RandomPlacement {
  const char* name;
  int64_t mesh_dims;    // how many, of at least two ranks each, it takes
  int64_t tensor_dims;  // how many it cuts
  bool partial;
  // On these mesh dimensions, cutting these tensor dimensions; the others are replicated.
  oracle::Target (*make)(Random& random, const oracle::Target& replicated, const std::vector<size_t>& mesh,
                         const std::vector<int64_t>& dims);
};

// What a launch on the device makes of a tensor of this many elements.
struct RandomRegime {
  const char* name;
  std::vector<DeviceModel> devices;
  int64_t least, most;             // elements
  bool only_permutations = false;  // of which only a permutation makes something else
};

std::span<const c10::ScalarType> random_dtypes();
std::span<const RandomPlacement> random_placements();
std::span<const RandomRegime> random_regimes();
// Every value of an axis, by name.
const std::vector<std::string>& axis_values(size_t axis);
const char* axis_name(size_t axis);

// "R", "S+P", …: the line of the table that a target is one of.
std::string kind_of(const oracle::Target& target);
// "even", "uneven", "empty": the worst of the dimensions that are cut; "-" where none is.
std::string evenness(const oracle::Target& target, const std::vector<int64_t>& shape, const DeviceMesh& mesh);
// How its ranks share the elements.
std::string evenness(const RaggedShard& ragged, const std::vector<int64_t>& shape);

// The regime's name; "" for one that is not in the table.
std::string regime_of(const DeviceModel& device, int64_t elements);

// A shape, and how it lies.
struct RandomLayout {
  DeviceMesh mesh;
  std::vector<int64_t> shape;
  oracle::Target target;
};
// One of the point's; nullopt where there is none (on this mesh, if one is given).
std::optional<RandomLayout> draw_layout(Random& random, const RandomPoint& point,
                                        const DeviceMesh* mesh = nullptr);

// Why a point does not exist; empty for one that does.
enum class Absent { kNo, kDtype, kPartial, kNothingCut, kNoKeys, kNoShape };
Absent absent(const RandomPoint& point);
const char* reason(Absent why);

// Two axes and a value of each, as positions.
struct RandomPair {
  size_t a = 0, b = 0, x = 0, y = 0;
  auto operator<=>(const RandomPair&) const = default;
};
std::string to_string(const RandomPair& pair);
std::vector<RandomPair> pairs_of(const RandomPoint& point);

// Every pair, and why no point has it: of the reasons of the points with it, the last of the enum.
const std::map<RandomPair, Absent>& random_pairs();
// Points that together have every pair that exists, in an order that mixes them; the same in every process.
const std::vector<RandomPoint>& covering_points();
// One that exists.
RandomPoint draw_point(Random& random);

// The points that a Case has: one for each call of a random operator on an input, a view of one, or nothing.
std::vector<RandomPoint> random_points(const oracle::Case& c);

}  // namespace lockstep::generators
