// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/trial/machines.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::perf::trial {
namespace {

using Values = std::vector<double>;

double normal(Random& random) {
  return std::normal_distribution<double>()(random);
}

double uniform(Random& random) {
  return std::uniform_real_distribution<double>()(random);
}

Values jitter(size_t samples, double scale, Random& random) {
  Values noise;
  for (size_t i = 0; i < samples; ++i) noise.push_back(scale * normal(random));
  return noise;
}

Values interrupted(size_t samples, double scale, Random& random) {
  Values noise;
  for (size_t i = 0; i < samples; ++i)
    noise.push_back(scale * std::exponential_distribution<double>()(random));
  return noise;
}

Values heavy(size_t samples, double scale, Random& random) {
  std::student_t_distribution<double> t(2.5);
  Values noise;
  for (size_t i = 0; i < samples; ++i) noise.push_back(scale * t(random));
  return noise;
}

// Two clock rates, the lower one a fifth slower; each lasts ten samples on average.
Values two_states(size_t samples, double scale, Random& random) {
  Values noise = jitter(samples, scale, random);
  bool slow = uniform(random) < 0.5;
  for (double& x : noise) {
    if (uniform(random) < 0.1) slow = !slow;
    if (slow) x += std::log(1.2);
  }
  return noise;
}

// A machine that gets warm: a tenth slower after sixty samples, and no end of it.
Values drifting(size_t samples, double scale, Random& random) {
  Values noise = jitter(samples, scale, random);
  for (size_t i = 0; i < samples; ++i) noise[i] += 0.1 * static_cast<double>(i) / 60;
  return noise;
}

// Neighbours in time resemble each other; nine tenths of the deviation stay.
Values wandering(size_t samples, double scale, Random& random) {
  Values noise;
  double state = 4 * scale * normal(random);
  for (size_t i = 0; i < samples; ++i) {
    state = 0.9 * state + 4 * scale * std::sqrt(1 - 0.81) * normal(random);
    noise.push_back(state + scale * normal(random));
  }
  return noise;
}

// One sample in thirty takes half as long again to three times as long.
Values outliers(size_t samples, double scale, Random& random) {
  Values noise = jitter(samples, scale, random);
  for (double& x : noise)
    if (uniform(random) < 1.0 / 30) x += std::log(1.5 + 1.5 * uniform(random));
  return noise;
}

const Machine kMachines[] = {
    {"quiet", "log-normal jitter", jitter},
    {"interrupted", "only ever slower: exponential jitter", interrupted},
    {"heavy tails", "Student's t with 2.5 degrees of freedom", heavy},
    {"two states", "clock a fifth slower for ten samples at a time", two_states},
    {"drift", "a tenth slower every sixty samples", drifting},
    {"wandering", "neighbours in time resemble each other, correlation 0.9", wandering},
    {"coarse timer", "ticks of 2 % of what is measured", jitter, 0.02},
    {"outliers", "one sample in thirty takes 1.5 to 3 times as long", outliers},
    {"clinging", "half of an arm's own deviation stays to its next round", jitter, 0, 0.5},
};

enum Arm { kCandidateArm, kAgainArm, kBaselineArm };
using Round = std::array<double, 3>;

// One batch; `arms` are measured in an order of their own each round.
std::vector<Round> batch(const Machine& machine, double scale, size_t rounds, double effect, size_t arms,
                         Random& random) {
  const Values noise = machine.noise(rounds * arms, scale, random);
  std::array<size_t, 3> order = {kCandidateArm, kBaselineArm, kAgainArm};
  Round own = {};
  for (double& x : own) x = scale * normal(random);
  std::vector<Round> result(rounds);
  for (size_t r = 0; r < rounds; ++r) {
    std::shuffle(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(arms), random);
    for (size_t i = 0; i < arms; ++i) {
      const size_t arm = order[i];
      double x = noise[r * arms + i];
      if (machine.persist > 0) {
        own[arm] = machine.persist * own[arm] + std::sqrt(1 - machine.persist * machine.persist) * x;
        x = own[arm];
      }
      double time = std::exp(x + (arm == kBaselineArm ? 0 : effect));
      if (machine.tick > 0) time = std::max(1.0, std::round(time / machine.tick)) * machine.tick;
      result[r][arm] = std::log(time);
    }
  }
  return result;
}

}  // namespace

std::span<const Machine> machines() {
  return kMachines;
}

Turns take_turns(const Machine& machine, double scale, size_t rounds, double effect, Random& random) {
  Turns turns{.name = machine.name};
  for (const auto& r : batch(machine, scale, rounds, effect, 3, random)) {
    turns.effect.push_back(r[kCandidateArm] - r[kBaselineArm]);
    turns.same.push_back(r[kCandidateArm] - r[kAgainArm]);
  }
  for (const auto& r : batch(machine, scale, rounds, effect, 2, random))
    turns.confirm.push_back(r[kCandidateArm] - r[kBaselineArm]);
  return turns;
}

}  // namespace lockstep::perf::trial
