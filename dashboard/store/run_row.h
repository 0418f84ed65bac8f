// SPDX-License-Identifier: Apache-2.0
// The row of a run: its key, and insertion into a database.
#pragma once
#include <string_view>

#include "dashboard/store/rows.h"

namespace SQLite {
class Database;
}

namespace lockstep::dashboard {

// Hash of everything but times, state and exit code: the same invocation, on whatever worker.
Key key_of(const Run& run);

// Hash of what makes two cases the same case of the same program: of build, engine, lane and seed of the run,
// and what follows.
Key case_key(const Run& run, std::string_view suite, std::string_view law, std::string_view variant,
             std::string_view token);

struct PlanItem {
  std::string kind, name;  // "suite" or "label"
  int64_t least;
};

// @throws std::invalid_argument unless the plan is JSON of the form that rows.h shows; other keys are
// allowed.
std::vector<PlanItem> plan_of(const Run& run);

// @returns the row number of the run, which is inserted with its plan unless a run with its key is there.
int64_t insert_run(SQLite::Database& db, const Run& run, const std::vector<PlanItem>& plan);

}  // namespace lockstep::dashboard
