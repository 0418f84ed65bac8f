// SPDX-License-Identifier: Apache-2.0
// How faults are put into the engine: one helper for each extension point or decorator.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/ops/rules/bypass.h"
#include "engine/random/draw.h"
#include "engine/random/random_policy.h"
#include "engine/values/device_mesh.h"
#include "engine/values/per_rank.h"
#include "engine/values/refused.h"
#include "engine/world/worlds.h"
#include "suites/core/engine_under_test.h"

namespace lockstep {
struct Exchange;
}

namespace lockstep::suites {

// What a rank received: one tensor for each member of its group, in group order; of a general exchange flat
// ones.
using Received = std::vector<at::Tensor>;
using Arrived = PerRank<Received>;  // of the hosted ranks
using Groups = std::vector<Group>;
using SpoilReceived = std::function<void(Arrived& all, const Groups& groups)>;

// A World that spoils what ranks receive from the World it wraps: elements, not forms. Null hooks change
// nothing.
struct WorldFault {
  // After an all-gather or all-reduce: for each hosted rank its pieces, and the groups.
  SpoilReceived gathered{};
  // After an all-reduce, instead.
  SpoilReceived all_reduced{};
  // After an all-to-all, a reduce-scatter, a general exchange.
  SpoilReceived exchanged{};
  // Before any of these: each tensor that is sent.
  std::function<at::Tensor(const at::Tensor& sent)> sent{};
  // Where the exchange hands over what arrives: each piece.
  std::function<at::Tensor(const at::Tensor& arrived)> arrived{};
};
WorldPtr spoilt_world(WorldPtr world, WorldFault fault);
// What arrived for each part goes where the exchange wants it.
void deliver(const Exchange& asked, const Arrived& pieces);

// Makes the engine with its fault, afresh each time.
using Plant = std::function<EnginePtr()>;

Plant with_received(SpoilReceived gathered, SpoilReceived exchanged);
Plant with_sent(std::function<at::Tensor(const at::Tensor& sent)> spoil);
// Another World around that of each run.
Plant with_world(WorldPtr (*around)(WorldPtr world));
// With a fault made afresh for each run: what it remembers lives as long as the run.
Plant with_world_made(std::function<WorldFault()> make);

// What each redistribution gave is spoilt, before anything reads it.
Plant with_moved(void (*spoil)(const at::Tensor& moved));

// Meshes that are made of another one are spoilt.
Plant with_meshes(DeviceMesh (*remade)(const DeviceMesh& whole, const DeviceMesh& made));

// The rows of `op` are those of its rule after `change`.
using ChangeRows = Rows (*)(const OpCall& call, Rows rows);
Plant with_rows(std::string op, ChangeRows change);

// These bypasses, and no others.
Plant with_bypasses(std::vector<Bypass> bypasses);

Plant with_policy(RandomPolicy policy);

// DTensors draw in another way, made afresh for each run.
Plant with_drawing(std::function<Drawing()> make);

// The oracle draws in another way: the fault is in its plain run.
using MakeSource = std::unique_ptr<RandomSource> (*)();
Plant with_plain_source(MakeSource make);

// Another program than the one asked for is run. `values[i]` is the number, in the program that ran, of value
// i of the one asked for.
struct Rewritten {
  oracle::Case c;
  std::vector<int64_t> values;
};
Plant with_program(Rewritten (*rewrite)(const oracle::Case& c));

// Where Lockstep refuses an op for this reason, the op's first argument is moved to every rank, and then it
// runs: the timeline says of the move that the engine inserted it, and of the tensor that it is there.
Plant with_refused_moved(Refusal why);

// The results are spoilt after the run.
Plant with_result(void (*spoil)(const oracle::Case& c, EngineResult& result));

// Gloo reduces, and the orders that are declared are spoilt after the run; in the integer lane nothing
// changes.
Plant with_library_order(void (*spoil)(ReductionOrder& order));

// A run whose key is that of this engine's last answer of its own, and which differs only in what the key
// leaves out, is given that answer again.
Plant with_stale_cache(std::string (*key)(const oracle::Case& c));

}  // namespace lockstep::suites
