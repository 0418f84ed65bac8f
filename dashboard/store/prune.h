// SPDX-License-Identifier: Apache-2.0
// Making a store smaller without making it say less.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SQLite {
class Database;
}

namespace lockstep::dashboard {

class Store;

struct PruneOptions {
  int64_t older_than_days = 30;  // than the newest run of the file
  int64_t slowest = 20;          // cases of each run and suite that stay, whatever their age
  bool dry = false;              // only say what would go
};

// What goes, by run, suite and verdict.
struct PrunedCount {
  std::string run, suite, verdict;
  int64_t cases = 0, of = 0;
};

// Cases of finished runs that passed and are older go; their counts and keys stay, and every count of the
// views with them. It never removes: a failure; a case that came out in two ways; the replay of a failure or
// of a mended case; of a case that is kept as boundary or slow its newest outcome; the slowest of a run and
// suite; the newest witness of a combination of suite, op, placement, mesh rank, evenness, dtype and verdict,
// so that whatever the file could show by a token before it can show by one after. All of it or nothing; the
// file is then rewritten to give its pages back.
std::vector<PrunedCount> prune(Store& store, const PruneOptions& options);

// Of a copy that only the gate reads: every case that passed goes, its verdict stays with its key; coverage
// is of op, placement and verdict alone. What no rule of the gate asks of a baseline can no longer be told,
// so such a copy is not merged with what it was made of.
void condense(SQLite::Database& db);

// How many cases the corpus keeps, by origin: pruning leaves all of them.
std::vector<std::pair<std::string, int64_t>> kept_by_origin(const Store& store);

}  // namespace lockstep::dashboard
