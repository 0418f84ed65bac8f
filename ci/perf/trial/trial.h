// SPDX-License-Identifier: Apache-2.0
// The promises of ../statistics, counted on machines that do not exist.
#pragma once
#include "ci/perf/trial/machines.h"

namespace lockstep::perf::trial {

struct Setting {
  const Machine* machine = nullptr;
  double scale = 0;   // of its noise
  size_t rounds = 0;  // of a batch
  size_t family = 1;  // series of the night
};

// How often a candidate that is slower by `effect` was called what.
struct Slowdowns {
  int trials = 0;
  int stated = 0;  // an effect of max_detectable or less is stated as detectable
  int found = 0;   // and the verdict is kMore
  int same = 0;    // the verdict is kNone
  int hidden = 0;  // of those, where a larger effect is stated: must never be

  void add(const Slowdowns& other);
};
Slowdowns slow_down(const Setting& setting, double effect, int trials, const Policy& policy, uint64_t seed);

// Nights in which `family` series are measured, every arm the same binary.
struct Nights {
  int nights = 0;
  int alarmed = 0;   // with any alarm
  int series = 0;    // of all nights
  int same = 0;      // of these, how many were judged so
  int repeated = 0;  // of these, how many wanted a second batch
};
Nights same_binary(const Setting& setting, int nights, const Policy& policy, uint64_t seed);

// The chance of at most `hits` among `trials` of this rate.
double binomial_at_most(int hits, int trials, double rate);

}  // namespace lockstep::perf::trial
