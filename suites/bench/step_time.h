// SPDX-License-Identifier: Apache-2.0
// StepTime: how long a training step under fully_shard takes, by the work that a StepPlan says it is; fitted
// to steps of a small LLaMA on 4 and 8 ranks, all of them in one thread.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/fsdp/step_plan.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// Of those ranks that one thread computes for.
struct StepWork {
  double bytes = 0;     // that they send to others
  double elements = 0;  // that are multiplied and added
};

// Of one rank, that which sends the most, and of all.
StepWork work_of_rank(const fsdp::StepPlan& plan, double elements);
StepWork work_of_all(const fsdp::StepPlan& plan, double elements);
// Of a step in which every parameter meets so many tokens: once forward, twice back.
double elements_of(const std::vector<fsdp::StepGroup>& groups, double tokens);

// seconds = fixed + per_byte * bytes + per_element * elements.
struct StepTime {
  double fixed = 0, per_byte = 0, per_element = 0;
  double seconds(const StepWork& work) const {
    return fixed + per_byte * work.bytes + per_element * work.elements;
  }
};

// Seconds of this thread's own time of a training step after the first, which decides every placement: the
// least of so many.
double step_seconds(const TrainOptions& options, int steps);

// A step that was measured: forward, backward, clipping, AdamW.
struct StepSample {
  int64_t ranks = 0, tokens = 0;  // tokens of a rank
  StepWork work;                  // of all ranks
  double seconds = 0;             // of this thread's own time
};
// The least of several steps after the first.
StepSample sample_step(int64_t ranks, int64_t tokens);
// Which sample_step(ranks, tokens) measures.
std::vector<fsdp::StepGroup> sampled_groups();

// The least sum of squares of relative errors, in which nothing takes less than no time.
// @pre samples of several ranks and of several numbers of tokens
StepTime fit(const std::vector<StepSample>& samples);

// Samples of 4 and 8 ranks, what they say of one of 64, and that one measured, in one process.
struct Calibration {
  std::vector<StepSample> samples;
  StepTime time;
  StepSample beyond;
  double predicted = 0;  // seconds of `beyond`

  double error() const { return predicted / beyond.seconds - 1; }
};
inline constexpr double kMostError = 0.2;
Calibration calibrate();

}  // namespace lockstep::suites
