// SPDX-License-Identifier: Apache-2.0
// Faults that a search within one process cannot look for: they take it along, stop it, or come and go.
#include <ATen/ATen.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>

#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

const auto relu_on_ranks = on_ranks(calls("aten::relu"));

void crashes(const oracle::Case& c, EngineResult&) {
  if (relu_on_ranks(c)) std::abort();
}

void hangs(const oracle::Case& c, EngineResult&) {
  while (relu_on_ranks(c)) sleep(1);
}

// Wrong in the first run of each case alone: whichever worker takes the case, and whatever it ran before.
void comes_and_goes(const oracle::Case& c, EngineResult& result) {
  static std::set<std::string> seen;
  if (!relu_on_ranks(c) || !seen.insert(oracle::to_token(c)).second) return;
  for (auto& value : result.values)
    for (auto& local : value.locals)
      if (local.numel() > 0 && local.is_floating_point()) local = at::where(local == local, local + 1, local);
}

}  // namespace

std::vector<Fault> process_faults() {
  return {
      {0, "crash", "process", "relu on several ranks takes the process along", "ops", 1000, 1, relu_on_ranks,
       with_result(crashes)},
      {1, "hang", "process", "relu on several ranks never ends", "ops", 1000, 1, relu_on_ranks,
       with_result(hangs)},
      {2, "flaky", "process", "relu on several ranks is off by one the first time", "ops", 1000, 1,
       relu_on_ranks, with_result(comes_and_goes)},
  };
}

}  // namespace lockstep::suites::plant
