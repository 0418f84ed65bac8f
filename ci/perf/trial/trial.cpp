// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/trial/trial.h"

#include <cmath>

namespace lockstep::perf::trial {

void Slowdowns::add(const Slowdowns& other) {
  trials += other.trials;
  stated += other.stated;
  found += other.found;
  same += other.same;
  hidden += other.hidden;
}

Slowdowns slow_down(const Setting& setting, double effect, int trials, const Policy& policy, uint64_t seed) {
  Random random(seed);
  Slowdowns result{.trials = trials};
  for (int i = 0; i < trials; ++i) {
    Turns turns = take_turns(*setting.machine, setting.scale, setting.rounds, std::log1p(effect), random);
    turns.name += std::to_string(i);
    const TurnsVerdict v = judge_turns({&turns, 1}, setting.family, policy).front();
    const bool stated = v.detectable <= std::log1p(policy.max_detectable);
    result.stated += stated;
    result.found += stated && v.finding == Finding::kMore;
    result.same += v.finding == Finding::kNone;
    result.hidden += v.finding == Finding::kNone && !stated;
  }
  return result;
}

Nights same_binary(const Setting& setting, int nights, const Policy& policy, uint64_t seed) {
  Random random(seed);
  Nights result{.nights = nights};
  for (int night = 0; night < nights; ++night) {
    std::vector<Turns> series;
    for (size_t i = 0; i < setting.family; ++i)
      series.push_back(take_turns(*setting.machine, setting.scale, setting.rounds, 0, random));
    bool alarm = false;
    for (const auto& v : judge_turns(series, series.size(), policy)) {
      alarm = alarm || v.finding == Finding::kMore || v.finding == Finding::kLess;
      result.same += v.finding == Finding::kNone;
      result.repeated += v.wants_second;
      result.series += 1;
    }
    result.alarmed += alarm;
  }
  return result;
}

double binomial_at_most(int hits, int trials, double rate) {
  double sum = 0;
  for (int k = 0; k <= hits; ++k)
    sum += std::exp(std::lgamma(trials + 1.0) - std::lgamma(k + 1.0) - std::lgamma(trials - k + 1.0) +
                    k * std::log(rate) + (trials - k) * std::log1p(-rate));
  return sum;
}

}  // namespace lockstep::perf::trial
