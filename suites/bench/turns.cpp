// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/turns.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>

namespace lockstep::suites {
namespace {

// A started arm, and which series it has.
struct Started {
  NamedArm named;
  std::unique_ptr<Arm> process;
  std::set<std::string> known;
};

std::vector<Started> start(const std::vector<NamedArm>& arms, const TurnOptions& options) {
  std::vector<Started> started;
  for (const auto& arm : arms) {
    started.push_back({arm, std::make_unique<Arm>(arm.command, options.patience), {}});
    for (const auto& s : started.back().process->list()) started.back().known.insert(s.name);
  }
  return started;
}

}  // namespace

std::vector<dashboard::Series> checked_series(const std::vector<NamedArm>& arms, const std::string& pattern,
                                              const TurnOptions& options) {
  const auto started = start(arms, options);
  std::vector<dashboard::Series> chosen;
  const auto shared = [&](const dashboard::Series& s) {
    return std::all_of(started.begin(), started.end(), [&](auto& arm) { return arm.known.contains(s.name); });
  };
  for (const auto& s : started.front().process->list())
    if (s.name.find(pattern) != std::string::npos && (!options.shared || shared(s))) chosen.push_back(s);
  LOCKSTEP_CHECK(!chosen.empty(), "[bench] no series has '", pattern,
                 "' in its name; `lockstep bench --list` prints them");
  std::set<std::vector<std::string>> checked;
  for (const auto& arm : started) {
    if (!checked.insert(arm.named.command).second) continue;
    for (const auto& s : chosen)
      if (arm.known.contains(s.name)) arm.process->check(s.name);
  }
  return chosen;
}

std::vector<Sample> take_turns(const std::vector<NamedArm>& arms,
                               const std::vector<dashboard::Series>& series, const TurnOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<Sample> samples;
  for (int round = 0; round < options.rounds; ++round) {
    auto started = start(arms, options);
    for (const auto& s : series) {
      if (s.counted) continue;
      std::shuffle(started.begin(), started.end(), random);
      for (const auto& arm : started)
        if (arm.known.contains(s.name))
          samples.push_back({s.name, arm.named.name, s.unit, arm.process->sample(s.name, options.least)});
    }
    options.on_round(round + 1, options.rounds);
  }
  return samples;
}

std::vector<Sample> count_twice(const std::vector<NamedArm>& arms,
                                const std::vector<dashboard::Series>& series, const TurnOptions& options) {
  std::vector<Sample> samples;
  for (int process = 0; process < 2; ++process)
    for (const auto& arm : start(arms, options))
      for (const auto& s : series)
        if (s.counted && arm.known.contains(s.name))
          samples.push_back({s.name, arm.named.name, s.unit, arm.process->sample(s.name, 0)});
  return samples;
}

}  // namespace lockstep::suites
