// SPDX-License-Identifier: Apache-2.0
// OpEntry: all that the engine knows of an op. Its in-place, out and foreach variants follow from it
// (resolve.h).
#pragma once
#include <array>
#include <optional>

#include "engine/lane/numerics.h"
#include "engine/ops/rules/local.h"
#include "engine/ops/rules/row.h"
#include "engine/values/per_rank.h"

namespace lockstep {

enum class OpKind {
  kValue,   // a new tensor
  kView,    // aliases its input, which therefore never moves
  kRandom,  // draws from the single device's stream
  kScalar,  // reads a value on the host: inputs are made whole, ranks must agree
  kWhole,   // likewise, and gives new tensors, whole on every rank, whose shapes its values decide
};

// How an op runs on one rank, in each lane.
class Runs {
 public:
  Runs(LocalRun every) { by_lane_.fill(every); }
  LocalRun operator[](Lane lane) const { return by_lane_[static_cast<size_t>(lane)]; }

 private:
  std::array<LocalRun, static_cast<size_t>(Lane::kFast) + 1> by_lane_;
};

// The results on meta tensors, undefined ones included; nullopt: libtorch describes this overload itself.
using Metas = std::optional<std::vector<at::Tensor>>;
using Infer = Metas (*)(const Arguments&);

// What an op draws on each hosted rank: [output][hosted rank].
struct RandomOp;
using Draw = std::vector<PerRank<at::Tensor>> (*)(const RandomOp&);

// How the `out` must lie in memory of an op that draws in its order, or of which libtorch's kernel takes it
// for contiguous and fills the wrong elements otherwise: as the functional op's result does.
enum class OutMemory { kAny, kContiguous, kAsInput };

// A reduction of which ranks share what one result is of: by its rows, or composed of what the ranks add up,
// and of the rest, which comes once after that. Norms: a list of them.
enum class OfShared { kRows, kMean, kNorm, kNorms };

// Fields that an op does not name say: only the all-Replicate row, a new tensor, the stock op on the locals,
// libtorch's own meta kernel (or, where it has none, the op run once on zeros).
struct OpEntry {
  std::string name = {};  // without overload: "aten::add"; a user's rule may be for one overload alone
  RowsOf rows = [](const OpCall&) { return Rows{}; };
  OpKind kind = OpKind::kValue;
  Runs run = local::stock;
  Infer infer = nullptr;
  Draw draw = nullptr;  // of kRandom
  OutMemory memory_of_out = OutMemory::kAny;
  std::optional<std::string_view> except = {};  // an overload that this says nothing of
  bool own_interleaved = false;                 // the rows name InterleavedShards themselves
  // Whether input 0, placed so along all mesh dimensions, is cut where it may be: asked of a RaggedShard,
  // which is then chosen after all others. Null: the rows say it.
  bool (*ragged_fits)(const OpCall& call, const Spec& placed) = nullptr;
  bool returns_input = false;        // the very tensor, which is what the op returns on one device
  bool absolute_offset = false;      // a view that names its place in storage, not from its input's
  bool written_by_autograd = false;  // a view through which autograd writes a gradient that it has just made
  OfShared of_shared = OfShared::kRows;
};

}  // namespace lockstep
