// SPDX-License-Identifier: Apache-2.0
// Which of two rows with the same key stays: what recorder and merge share. Each rule is a minimum or maximum
// in a total order, so that joining is commutative, associative and idempotent.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

namespace lockstep::dashboard {

// An order such as "$ops, length($token)": the smaller row stays. Or one of those below.
using Rule = std::string;
inline const Rule kFirst = "";          // rows with one key are the same
inline const Rule kLargest = "hits";    // counts of a worker, which only grow
inline const Rule kSmallest = "least";  // of each column the smaller value

// The rule of a table.
Rule rule_of(const std::string& table);
// It as the ON CONFLICT of an INSERT into main.
std::string on_conflict(SQLite::Database& db, const std::string& table, const Rule& rule);
// "a, b, c": all columns but the row's own number; each in the form, whose % is the name.
std::string columns_of(SQLite::Database& db, const std::string& table, const std::string& form = "%");

}  // namespace lockstep::dashboard
