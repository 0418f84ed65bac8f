// SPDX-License-Identifier: Apache-2.0
// How one training run is called, and its rows for the store: the same for a run by itself and for one of
// several.
#pragma once
#include <optional>
#include <string>

#include "dashboard/store/rows.h"
#include "suites/train/train.h"

namespace lockstep::dashboard {
class Recorder;
}

namespace lockstep::suites {

// Which draws follow a run's policy; the others follow the single device's stream.
enum class Varied { kInit, kDropout, kBoth };
const char* name(Varied varied);  // "init", "dropout", "init+dropout"

// Whether the policy draws the same numbers whatever the placements: single-device, indexed.
bool agrees_with_reference(RandomPolicy policy);

// What differs between the runs of one training.
struct RunPolicy {
  RandomPolicy policy = RandomPolicy::kSingleDevice;
  Varied varied = Varied::kBoth;
};
RunPolicy policy_of(const TrainOptions& run);

// "tp:4 single-device", "tp:4 per-rank-seeds dropout", "fsdp:4 single-device, without dbuffer", "tp:2
// single-device, static"; without a mesh "one device" and "one device, indexed".
std::string run_name(const TrainOptions& run);

// A run without a mesh is the reference of those with one. Indexed runs are of a model of their own, "…,
// indexed numbers", so that they are compared with their reference. `lane`: that the process is in.
dashboard::Curve curve_row(const TrainOptions& run, const std::string& lane);

// Commits one step, so that a process that is killed keeps all that it has trained; again with the verdict
// once the step has been judged.
void record_step(const TrainOptions& run, const std::string& lane, const TrainStep& step,
                 std::optional<dashboard::Verdict> verdict, dashboard::Recorder& recorder);

}  // namespace lockstep::suites
