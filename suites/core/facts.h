// SPDX-License-Identifier: Apache-2.0
// Facts of a case beside its outcome: which ops ran on which placements, bytes moved. Observed by a decorator
// of the engine under test, so that no suite has to collect them.
#pragma once
#include <set>
#include <string>
#include <tuple>

#include "suites/core/engine_under_test.h"
#include "suites/core/outcome.h"

namespace lockstep::suites {

// How an op comes to a row along one mesh dimension: nothing had to move; its inputs stood in the row, and
// something moved along another dimension, so that the row was chosen among others by its cost; an input was
// redistributed along this one. On one mesh dimension the second does not exist.
inline constexpr const char* kWays[] = {"stood", "cheapest", "moved"};

struct Facts {
  // op, placement pattern, mesh rank, evenness
  std::set<std::tuple<std::string, std::string, int64_t, std::string>> coverage;
  // Which rows of their rules ops took: along one mesh dimension, inputs > outputs, and in which of kWays:
  // "aten::mm[S0,R>S0]stood". Not of list ops, which take the functional op's.
  std::set<std::string> rows;
  int64_t bytes_moved = 0;
  int64_t fallbacks = 0;  // of the run that had most
  int64_t runs = 0;
};

// A placement without sizes, so that a shard of dimension 0 is one row, whatever the tensor: "S0", "R", "P".
std::string short_form(const Placement& placement);
// "aten::mm[S0,R>S0]".
std::string row_text(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs);
// Whether Facts::rows tells of it.
bool takes_a_row(const TimelineEntry& entry);
// "even", "uneven" or "empty": how the Spec's shards divide among the ranks.
std::string evenness(const Spec& spec);
// The worst of the case's inputs.
std::string evenness(const oracle::Case& c);
// The kinds of placement of its inputs and redistributions.
std::string placement_pattern(const oracle::Case& c);
// The names of the ops that the Program calls, each once, in order of first use.
std::vector<std::string> op_names(const oracle::Program& program);

class Observing : public EngineUnderTest {
 public:
  Observing(EngineUnderTest& engine, Facts& facts) : engine_(engine), facts_(facts) {}
  const EngineProfile& profile() const override { return engine_.profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override;
  std::unique_ptr<RandomSource> plain_source() override { return engine_.plain_source(); }
  const TrainFault* train_fault() const override { return engine_.train_fault(); }
  const ShardedFault* sharded_fault() const override { return engine_.sharded_fault(); }

 private:
  EngineUnderTest& engine_;
  Facts& facts_;
};

}  // namespace lockstep::suites
