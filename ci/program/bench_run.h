// SPDX-License-Identifier: Apache-2.0
// What `lockstep bench` does: checks bits, measures in turns, confirms, and then writes all of it or nothing.
// What it prints, and what it can say without statistics: counts are compared exactly.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/rows.h"
#include "suites/bench/turns.h"

namespace lockstep::program {

// The arms of samples in the store. The k-th sample of an arm (its `seq`, counted by the recorder) belongs to
// round k. A round takes one sample of each of three arms, in an order drawn anew for every round: the order
// is what makes the test exact, since with one and the same binary in two arms the sign of their difference
// is then a coin's. Each sample comes from a process of its own: what a process draws once (addresses, pages)
// would otherwise stay for a whole batch and pass for a difference of the binaries.
inline constexpr std::string_view kCandidate = "candidate";
inline constexpr std::string_view kAgain = "again";  // the candidate's binary once more: they differ by noise
inline constexpr std::string_view kBaseline = "baseline";
// A second batch of rounds, for the series that may have changed, measured after the first has ended
// and written into the same run.
inline constexpr std::string_view kConfirmCandidate = "confirm-candidate";
inline constexpr std::string_view kConfirmBaseline = "confirm-baseline";
// A plain run: no turns. It is compared with history.
inline constexpr std::string_view kPlain = "";

struct BenchOptions {
  std::string db = "lockstep.db";
  std::string pattern;  // only series with this text in their name
  std::string against;  // path of a baseline; empty: none
  // The program that is measured: this very one, also if its file is replaced meanwhile.
  std::vector<std::string> candidate{"/proc/self/exe"};
  int rounds = 0;         // 0: 20, or 2 if quick
  double patience = 300;  // seconds for one answer
  bool quick = false, no_instructions = false;
  bool shared = false;  // only series that the baseline has too
  std::string command;  // as typed
};

struct BenchResult {
  dashboard::Run run;
  std::string db;
  bool compared = false;  // in turns with a baseline
  std::vector<dashboard::Series> series;
  std::vector<suites::Sample> samples;
};

// @post a run with every sample is in the store; nothing is if anything throws. Throws suites::WrongBits if a
// body does not give the bits that it should, suites::ArmError if a program cannot be measured.
BenchResult bench(BenchOptions options);

// The samples of one arm of a series, by round.
std::vector<double> values_of(const std::vector<suites::Sample>& samples, std::string_view series,
                              std::string_view arm);

// Slower: more work is counted. Not measured: counts of one binary differ, or timed series wait for
// `ci/speed`.
std::set<int> codes_of(const BenchResult& result);

std::string bench_table(const BenchResult& result);
std::string bench_json(const BenchResult& result);

}  // namespace lockstep::program
