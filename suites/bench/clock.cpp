// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/clock.h"

#include <algorithm>
#include <ctime>
#include <vector>

namespace lockstep::suites {
namespace {

constexpr int kTurns = 9;

double timed(const Action& action, int64_t calls) {
  const double start = thread_seconds();
  for (int64_t i = 0; i < calls; ++i) action();
  return thread_seconds() - start;
}

// The least power of two of calls that takes so long; calls them, which also warms up.
int64_t calls_for(const Action& action, double least) {
  int64_t calls = 1;
  while (timed(action, calls) < least) calls *= 2;
  return calls;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_per_call(const Action& action, double least) {
  const int64_t calls = calls_for(action, least / kTurns);
  std::vector<double> turns;
  for (int i = 0; i < kTurns; ++i) turns.push_back(timed(action, calls));
  return median(std::move(turns)) / static_cast<double>(calls);
}

double seconds_above(const Action& action, const Action& base, double least) {
  const int64_t calls = calls_for(action, least / kTurns);
  std::vector<double> turns;
  timed(base, calls);
  for (int i = 0; i < kTurns; ++i) turns.push_back(timed(action, calls) - timed(base, calls));
  return median(std::move(turns)) / static_cast<double>(calls);
}

}  // namespace lockstep::suites
