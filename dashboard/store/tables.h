// SPDX-License-Identifier: Apache-2.0
// Which of two rows with the same key stays: what recorder and merge share. Each rule is a minimum or maximum
// in a total order, so that joining is commutative, associative and idempotent.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

namespace lockstep::dashboard {

// The rule of a table, as the ON CONFLICT of an INSERT into main.
std::string on_conflict(SQLite::Database& db, const std::string& table);
// "a, b, c": all columns but the row's own number; each in the form, whose % is the name.
std::string columns_of(SQLite::Database& db, const std::string& table, const std::string& form = "%");

}  // namespace lockstep::dashboard
