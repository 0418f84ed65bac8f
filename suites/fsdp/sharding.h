// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `fsdp`: small models under fully_shard, as a Case, which is an empty Program. Its
// mesh trains, its seed and device are the stream's, and its options say what is trained and how it is
// sharded.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/fsdp/mixed_precision.h"
#include "oracle/program/program.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// L, l: linear of so many features with a bias, without; n: RMSNorm; N: LayerNorm; t: tanh; d: dropout; r:
// adds what came into the block.
struct LayerSpec {
  char kind = 't';
  int64_t size = 0;  // of L and l
  bool operator==(const LayerSpec&) const = default;
};
using BlockSpec = std::vector<LayerSpec>;

struct Sharding {
  int64_t width = 6;  // features of an example
  std::vector<BlockSpec> blocks = {{{'L', 6}}};
  int64_t wrap = 0;          // bit i: block i is fully_sharded by itself; the rest is by the root
  int64_t together = 0;      // k: the first k of the wrapped blocks by one call, of a list
  int64_t nested = 0;        // 1: the first linear of each wrapped block by itself, within that block
  int64_t gathered = 0;      // 1: not cut again after forward; 2: but for the root's, which are not
  int64_t among = 0;         // k: cut among k ranks after forward
  int64_t prefetch = 0;      // 1: every unit prefetches the next one, forward and backward
  int64_t recompute = 0;     // 1: every block runs again on the way back
  int64_t rows = 0;          // of matrices, that stay in one block; 0: blocks of one element
  int64_t frozen = 0;        // k: the k-th parameter requires no gradient
  int64_t frozen_first = 0;  // 1: before fully_shard
  int64_t ignored = 0;       // k: the k-th parameter is whole on every rank, and of no unit
  int64_t placed = 0;        // 1: shard_placement_fn says Shard(0) of matrices: no row is cut
  int64_t thaws = 0;         // 1: it does from the second step on
  int64_t kept = 0;          // 1: not cut again after backward
  int64_t by_hand = 0;       // gathered by hand before each step; 2: begun to be, and the calls wait
  int64_t evaluates = 0;     // a forward alone in each step: 1: after the update, 2: before it
  int64_t sides = 0;         // 1: a block gets a function of its input as another, but for the first one
  int64_t pretrained = 0;    // 1: parameters have values before fully_shard
  int64_t calls = 0;   // of a block that returns the width that came: 1: on its output, too; 2: by itself
  int64_t tied = 0;    // 1: two matrices of one shape in one unit are one parameter
  int64_t unused = 0;  // k: the k-th block, which returns the width that came, is never called
  std::string order = "default";
  int64_t steps = 1, passes = 1;  // backward passes of a step
  int64_t each = 0;    // 1: every pass reduces; 2: but over replicas the last one does; 0: the last one does
  int64_t factor = 1;  // by which gradients are divided
  int64_t clip = 0;    // 1: gradients are clipped to a norm of 0.5
  int64_t batch = 2;   // examples of a rank in a pass
  OptimizerKind optimizer = OptimizerKind::kSgd;
  int64_t tile = 1;  // of adamw-8bit: rows and columns that share a scale, of every matrix in f32
  c10::ScalarType dtype = c10::ScalarType::Float;
  MixedPrecisionPolicy policy;  // of the root; the others' outputs stay as they are

  DeviceMesh mesh;  // dimensions of kMeshDims
  uint64_t seed = 0;
  DeviceModel device;
  Lane numerics = Lane::kExact;
};

TrainOptions optimizer_options(const Sharding& sharding);
// "6-L7.t.l6-n.r": the width, then blocks.
std::string model_text(const Sharding& sharding);
// Throws Error for a text that is none.
void set_model(Sharding& sharding, const std::string& text);
bool is_linear(const LayerSpec& layer);
// Features that a block returns.
int64_t width_after(const BlockSpec& block, int64_t width);
bool is_wrapped(const Sharding& sharding, size_t block);
// Of each call of fully_shard the paths of its modules: first the root's, "", then in the order in which the
// first modules begin to run.
using UnitPaths = std::vector<std::vector<std::string>>;
UnitPaths unit_paths(const Sharding& sharding);
// Which of them has a parameter.
size_t unit_of(const UnitPaths& units, std::string_view parameter);
// The paths of the last matrix that can be that of a layer before, and of the first that it can be.
std::optional<std::pair<std::string, std::string>> tied_paths(const Sharding& sharding);

// Throws Error for a Case that is none: one with a Program, an option that does not exist or has no such
// value, a model whose widths do not fit.
Sharding sharding_of(const oracle::Case& c);
// @post sharding_of(result) is `sharding`
oracle::Case case_of(const Sharding& sharding);

// What is wrong with the model and what is asked of it; empty: nothing.
std::string unfit(const Sharding& sharding);
// Among how many ranks parameters can be cut after forward.
std::vector<int64_t> smaller_groups(const DeviceMesh& mesh);
bool has_tp(const DeviceMesh& mesh);
bool has_layer(const Sharding& sharding, std::string_view kinds);
// A norm in 16 bits, which adds up its gradient in 32 before it comes.
bool has_short_norm(const Sharding& sharding);
// Some gradients of a unit are reduced by themselves: what tensor parallelism leaves as it comes, such a
// norm's, and those of one of several modules that runs twice.
bool comes_in_parts(const Sharding& sharding);
// How often each pass gathers each unit: before its forward, and before its backward where it was cut between
// them. None: the case asks for what gathers otherwise.
std::optional<int64_t> gathers_of_a_pass(const Sharding& sharding);

// A pure function of both.
Sharding any_sharding(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first. Each is of smaller size in some respect and greater in none.
std::vector<oracle::Case> simpler_shardings(const oracle::Case& c);

}  // namespace lockstep::suites
