// SPDX-License-Identifier: Apache-2.0
#include "ci/program/bench_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "engine/values/exit_code.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/harness/environment.h"

namespace lockstep::program {
namespace {

using suites::median;
using suites::NamedArm;
using suites::Sample;

constexpr int kRounds = 20;  // of a batch: enough for 200 series and an outlier; see ci/perf/README.md

std::vector<NamedArm> arms(const BenchOptions& asked, std::initializer_list<std::string_view> names) {
  std::vector<NamedArm> all;
  for (const auto name : names) {
    const bool theirs = name == kBaseline || name == kConfirmBaseline;
    all.push_back({std::string(name), theirs ? std::vector{asked.against} : asked.candidate});
  }
  return all;
}

std::vector<NamedArm> first_arms(const BenchOptions& asked) {
  return asked.against.empty() ? arms(asked, {kPlain}) : arms(asked, {kCandidate, kAgain, kBaseline});
}

// Without the second arm of the candidate: what is counted needs no estimate of noise.
std::vector<NamedArm> counted_arms(const BenchOptions& asked) {
  return asked.against.empty() ? arms(asked, {kPlain}) : arms(asked, {kCandidate, kBaseline});
}

void say_if_busy() {
  double load[1] = {0};
  if (getloadavg(load, 1) == 1 && load[0] > 0.5 * suites::processors())
    std::fprintf(stderr,
                 "bench: the machine is busy (load %.1f on %d processors): intervals will be wide, and small "
                 "effects not detectable\n",
                 load[0], suites::processors());
}

suites::TurnOptions turn_options(const BenchOptions& asked, int rounds, const char* what) {
  suites::TurnOptions options;
  options.rounds = rounds;
  options.least = asked.quick ? 0.001 : 0.005;
  options.patience = asked.patience;
  options.seed = std::random_device{}();
  options.shared = asked.shared;
  options.on_round = [what](int done, int all) {
    std::fprintf(stderr, "bench: %s, round %d of %d\n", what, done, all);
  };
  return options;
}

// All that is measured before anything is written.
struct Batch {
  std::vector<dashboard::Series> series;
  std::vector<Sample> samples;
};

void count_instructions(const BenchOptions& asked, Batch& batch) {
  auto why_not = suites::why_no_instructions();
  if (asked.quick || asked.no_instructions) why_not = "not asked for";
  if (!why_not.empty()) {
    std::fprintf(stderr, "bench: no series of instructions: %s\n", why_not.c_str());
    return;
  }
  std::fprintf(stderr, "bench: counting instructions under callgrind\n");
  const auto timed = batch.series;
  const auto counted = suites::count_instructions(counted_arms(asked), timed, turn_options(asked, 1, ""));
  for (const auto& s : timed) {
    const auto of = suites::instructions_of(s);
    const auto has = [&](const Sample& sample) { return sample.series == of.name; };
    if (std::any_of(counted.begin(), counted.end(), has)) batch.series.push_back(of);
  }
  batch.samples.insert(batch.samples.end(), counted.begin(), counted.end());
}

Batch first_batch(const BenchOptions& asked) {
  const auto options = turn_options(asked, asked.rounds, "samples");
  const auto all = first_arms(asked);
  Batch batch{suites::checked_series(all, asked.pattern, options), {}};
  batch.samples = suites::count_twice(counted_arms(asked), batch.series, options);
  const auto timed = suites::take_turns(all, batch.series, options);
  batch.samples.insert(batch.samples.end(), timed.begin(), timed.end());
  count_instructions(asked, batch);
  return batch;
}

// Whether the first batch is a reason to look again. What an alarm is, `ci/speed` decides, with a floor of 2
// % and of this batch alone: a second one that it does not ask for costs time and changes nothing.
bool may_have_changed(const Batch& batch, const dashboard::Series& s) {
  constexpr double kFarthest = 0.01;
  const auto mine = values_of(batch.samples, s.name, kCandidate);
  const auto theirs = values_of(batch.samples, s.name, kBaseline);
  if (s.counted || mine.empty() || theirs.empty()) return false;
  return !(std::abs(median(mine) / median(theirs) - 1) < kFarthest);
}

// The series that may have changed are measured once more, by new processes.
void confirm(const BenchOptions& asked, Batch& batch) {
  std::vector<dashboard::Series> again;
  for (const auto& s : batch.series)
    if (may_have_changed(batch, s)) again.push_back(s);
  if (again.empty()) return;
  std::fprintf(stderr, "bench: %zu series may have changed: measuring them again\n", again.size());
  const auto second = suites::take_turns(arms(asked, {kConfirmCandidate, kConfirmBaseline}), again,
                                         turn_options(asked, asked.rounds, "confirmation"));
  batch.samples.insert(batch.samples.end(), second.begin(), second.end());
}

}  // namespace

BenchResult bench(BenchOptions asked) {
  if (asked.rounds == 0) asked.rounds = asked.quick ? 2 : kRounds;
  // A file that cannot be written is told before anything is measured.
  if (std::filesystem::exists(asked.db)) dashboard::Store::open_writer(asked.db);
  say_if_busy();
  auto batch = first_batch(asked);
  if (!asked.against.empty()) confirm(asked, batch);
  BenchResult result{suites::run_without_plan(asked.command, "exact"), asked.db, !asked.against.empty(),
                     std::move(batch.series), std::move(batch.samples)};
  auto store = dashboard::Store::open_writer(asked.db);
  dashboard::Recorder recorder(store, result.run, "bench");
  for (const auto& s : result.series) recorder.record(s);
  for (const auto& s : result.samples)
    recorder.record(dashboard::Measurement{s.series, s.unit, s.value, s.arm});
  recorder.finish("finished", winning(codes_of(result)));
  return result;
}

}  // namespace lockstep::program
