// SPDX-License-Identifier: Apache-2.0
// What the harness reads back of its own runs and no view shows, so that it need not know the tables.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

// The newest run of this store that did not finish.
std::optional<Run> unfinished_run(const Store& store);

// "suite|number|token|verdict|bucket" of every case of the run, in no order.
std::vector<std::string> outcomes(const Store& store, const std::string& run);

// Cases of a suite that came out equal or explained: the first of its sequence, or the slowest.
struct PassedCase {
  std::string token;
  int64_t time_ns = 0;
};
enum class PassedOrder { kFirst, kSlowest };
std::vector<PassedCase> passed_cases(const Store& store, const std::string& run, const std::string& suite,
                                     PassedOrder order, int64_t limit);

// The kept cases of the store and the minimal failing cases of all its runs, in no particular order.
std::vector<KeptCase> kept_cases(const Store& store);

// The tokens of the kept cases that this run has replayed.
std::vector<std::string> replayed_tokens(const Store& store, const std::string& run);

}  // namespace lockstep::dashboard
