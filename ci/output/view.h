// SPDX-License-Identifier: Apache-2.0
// Rows of a query as values, and as JSON. Private to this folder.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ci/output/report_model.h"

namespace lockstep::output {

std::shared_ptr<const Columns> columns_of(SQLite::Statement& statement);
// The row that the statement stands on.
Row row_of(SQLite::Statement& statement, const std::shared_ptr<const Columns>& columns);
Table table_of(SQLite::Database& db, const std::string& query);

// One row as an object, keys in the order of the columns. An integer beyond 2^53 is text, as are infinities.
// Bits are hex text; beside a REAL that has no column of bits stands one more key, NAME_bits.
nlohmann::ordered_json json_of(const Row& row);

// The counts, with the parts of one kind in an object of their own: "verdicts": {"equal": 12}.
nlohmann::ordered_json json_of(const Counts& counts);
// Strict UTF-8 text of it; texts were made valid before.
std::string dumped(const nlohmann::ordered_json& document);

}  // namespace lockstep::output
