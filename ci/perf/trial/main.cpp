// SPDX-License-Identifier: Apache-2.0
// perf_trial [TRIALS]: the tables of ../README.md, on standard output.
#include <cstdio>
#include <cstdlib>

#include "ci/perf/trial/trial.h"

namespace lockstep::perf::trial {
namespace {

constexpr double kScales[] = {0.01, 0.02, 0.04, 0.08};

std::string share(int part, int whole) {
  if (whole == 0) return "–";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100.0 * part / whole);
  return text;
}

void print_row(const Machine& m, int trials, const Policy& policy) {
  std::printf("| %s: %s |", m.name.c_str(), m.what.c_str());
  Slowdowns sum;
  for (const double scale : kScales) {
    const Setting setting{&m, scale, static_cast<size_t>(policy.rounds), 200};
    const Slowdowns slow = slow_down(setting, 0.1, trials, policy, 1);
    std::printf(" %s |", share(slow.stated, slow.trials).c_str());
    sum.add(slow);
  }
  Policy counting = policy;
  counting.resamples = 1;
  const Nights nights = same_binary({&m, 0.05, static_cast<size_t>(policy.rounds), 200}, trials, counting, 2);
  std::printf(" %s of %d | %d | %d of %d |\n", share(sum.found, sum.stated).c_str(), sum.stated, sum.same,
              nights.alarmed, nights.nights);
}

// How often 10 % is stated as detectable, by rounds, at 2 % of noise.
void print_rounds(int trials, const Policy& policy) {
  constexpr size_t kRounds[] = {8, 9, 10, 12, 15, 20, 30, 40};
  std::printf("\n| machine, 2 %% of noise |");
  for (const size_t rounds : kRounds) std::printf(" %zu |", rounds);
  std::printf("\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const auto& m : machines()) {
    std::printf("| %s |", m.name.c_str());
    for (const size_t rounds : kRounds) {
      const Slowdowns slow = slow_down({&m, 0.02, rounds, 200}, 0.1, trials, policy, 3);
      std::printf(" %s |", share(slow.stated, slow.trials).c_str());
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace lockstep::perf::trial

int main(int argc, char** argv) {
  using namespace lockstep::perf;
  const int trials = argc > 1 ? std::atoi(argv[1]) : 100;
  const Policy policy;
  std::printf("%d rounds, 200 series, %d trials for each number\n\n", policy.rounds, trials);
  std::printf(
      "| machine | 1 %% | 2 %% | 4 %% | 8 %% | found, of stated | called same | nights with an alarm |\n");
  std::printf("|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const auto& m : trial::machines()) trial::print_row(m, trials, policy);
  trial::print_rounds(trials, policy);
}
