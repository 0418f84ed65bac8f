// SPDX-License-Identifier: Apache-2.0
#include "ci/program/bench_run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "engine/values/exit_code.h"
#include "suites/bench/body.h"
#include "suites/bench/folder.h"
#include "suites/harness/environment.h"

namespace lockstep::program {
namespace {

using suites::NamedArm;
using suites::Sample;

std::vector<NamedArm> arms(const BenchOptions& asked, const char* candidate, const char* again,
                           const char* baseline) {
  std::vector<NamedArm> all{{candidate, asked.candidate}};
  if (asked.against.empty()) return all;
  if (*again != '\0') all.push_back({again, asked.candidate});
  all.push_back({baseline, {asked.against}});
  return all;
}

std::vector<NamedArm> first_arms(const BenchOptions& asked) {
  if (asked.against.empty()) return arms(asked, perf::kPlain.data(), "", "");
  return arms(asked, perf::kCandidate.data(), perf::kAgain.data(), perf::kBaseline.data());
}

// Without the second arm of the candidate: what is counted needs no estimate of noise.
std::vector<NamedArm> counted_arms(const BenchOptions& asked) {
  auto all = first_arms(asked);
  std::erase_if(all, [](const NamedArm& arm) { return arm.name == perf::kAgain; });
  return all;
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

void write(dashboard::Store& store, const dashboard::Run& run, const Batch& batch, int code) {
  dashboard::Recorder recorder(store, run, "bench");
  for (const auto& s : batch.series) recorder.record(s);
  for (const auto& s : batch.samples)
    recorder.record(dashboard::Measurement{s.series, s.unit, s.value, s.arm});
  recorder.finish("finished", code);
}

// Judged in a store of its own, so that the user's file gets all of a run or nothing.
template <class Judge>
auto judged(const dashboard::Run& run, const Batch& batch, Judge judge) {
  const suites::Folder folder;
  auto store = dashboard::Store::open_writer((folder.path / "judged.db").string());
  write(store, run, batch, 0);
  return judge(store);
}

// The series that raise an alarm are measured once more, by new processes.
void confirm(const BenchOptions& asked, const dashboard::Run& run, Batch& batch) {
  const auto names = judged(
      run, batch, [](const dashboard::Store& store) { return perf::series_to_confirm(store, nullptr, {}); });
  std::vector<dashboard::Series> again;
  for (const auto& s : batch.series)
    if (std::find(names.begin(), names.end(), s.name) != names.end()) again.push_back(s);
  if (again.empty()) return;
  std::fprintf(stderr, "bench: %zu series may have changed: measuring them again\n", again.size());
  const auto second =
      suites::take_turns(arms(asked, perf::kConfirmCandidate.data(), "", perf::kConfirmBaseline.data()),
                         again, turn_options(asked, asked.rounds, "confirmation"));
  batch.samples.insert(batch.samples.end(), second.begin(), second.end());
}

// A file that cannot be written is told before anything is measured.
void check_store(const std::string& path) {
  if (std::filesystem::exists(path)) dashboard::Store::open_writer(path);
}

}  // namespace

BenchResult bench(BenchOptions asked) {
  if (asked.rounds == 0) asked.rounds = asked.quick ? 2 : perf::Policy{}.rounds;
  check_store(asked.db);
  say_if_busy();
  auto batch = first_batch(asked);
  const auto run = suites::run_without_plan(asked.command, "exact");
  std::vector<perf::SeriesJudgement> judgements;
  if (!asked.against.empty()) {
    confirm(asked, run, batch);
    judgements = judged(run, batch,
                        [](const dashboard::Store& store) { return perf::judge_series(store, nullptr, {}); });
  }
  const auto codes = codes_of(judgements);
  const int code = winning(codes);
  auto store = dashboard::Store::open_writer(asked.db);
  write(store, run, batch, code);
  return {run,   asked.db, std::move(batch.series), std::move(batch.samples), std::move(judgements),
          codes, code};
}

}  // namespace lockstep::program
