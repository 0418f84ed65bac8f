// SPDX-License-Identifier: Apache-2.0
// Machines that do not exist, with the noise of those that do: what the promises of ../statistics are tried
// on.
#pragma once
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ci/perf/statistics/turns.h"

namespace lockstep::perf::trial {

using Random = std::mt19937_64;

// Noise of a machine, as logarithms of time over what the binary takes. `scale` is that of its common part.
struct Machine {
  std::string name{};
  std::string what{};  // in words, for the table
  // Of so many samples, one after the other.
  std::vector<double> (*noise)(size_t samples, double scale, Random& random) = nullptr;
  double tick = 0;     // of the timer, over the time that is measured; 0: exact
  double persist = 0;  // how much of an arm's own noise stays to the next round
};

std::span<const Machine> machines();

// A series in turns: `rounds` rounds of candidate, again and baseline in an order drawn for each, then as
// many of candidate and baseline. The candidate takes exp(effect) of the baseline's time.
Turns take_turns(const Machine& machine, double scale, size_t rounds, double effect, Random& random);

}  // namespace lockstep::perf::trial
