// SPDX-License-Identifier: Apache-2.0
// The numbers that a verdict on speed depends on. decisions/0001 says why they are what they are.
#pragma once
#include <cstdint>

namespace lockstep::perf {

struct Policy {
  double alpha = 0.01;    // chance that a night without any change raises an alarm, all series together
  double batch_p = 0.02;  // and what each of the two batches must reach by itself, few series or many
  double floor = 0.02;    // smaller effects are no alarm, however sure
  double max_detectable = 0.10;    // a series that would not show this effect is not measured
  double power = 0.95;             // share of trials in which an effect must be found to be called detectable
  double max_false_alarms = 0.05;  // a series that blames its own binary more often is not measured
  int resamples = 400;             // trials from which detectable and false_alarms of a series are counted
  uint64_t seed = 1;               // of the resampling
  int rounds = 20;                 // of a batch: enough for 200 series and an outlier; see README.md
  int history_least = 10;          // points of history below which nothing is said
  int history_most = 30;           // newest points of history that are looked at
};

}  // namespace lockstep::perf
