// SPDX-License-Identifier: Apache-2.0
// Rows of a query as values. Private to this folder.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ci/output/report_model.h"

namespace lockstep::output {

std::vector<std::string> columns_of(SQLite::Statement& statement);
// The row that the statement stands on.
std::vector<Value> row_of(SQLite::Statement& statement);
Table table_of(SQLite::Database& db, const std::string& query);

// One row as an object, keys in the order of the columns. An integer beyond 2^53 is text, as are infinities.
// Bits are hex text; beside a REAL that has no column of bits stands one more key, NAME_bits.
nlohmann::ordered_json json_of(const std::vector<std::string>& columns, const std::vector<Value>& row);
nlohmann::ordered_json json_of(const Table& table);

}  // namespace lockstep::output
