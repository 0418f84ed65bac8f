// SPDX-License-Identifier: Apache-2.0
#include "ci/output/view.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ci/output/text.h"
#include "dashboard/store/bits.h"

namespace lockstep::output {
namespace {

constexpr int64_t kExact = int64_t{1} << 53;  // beyond it a reader that knows only doubles loses digits

std::string hex_of(const void* data, int bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

Value value_at(SQLite::Statement& statement, int i) {
  const SQLite::Column column = statement.getColumn(i);
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  if (column.isText()) return column.getString();
  if (column.isBlob()) return hex_of(column.getBlob(), column.getBytes());
  return {};
}

bool has(const std::vector<std::string>& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// Columns of bits whose dtype is that of the row; the others hold doubles.
bool in_dtype_of_row(const std::string& name) {
  return name == "expected_bits" || name == "actual_bits" || name == "loss_bits" || name == "grad_norm_bits";
}

std::string dtype_of(const std::vector<std::string>& columns, const std::vector<Value>& row) {
  const auto at = std::find(columns.begin(), columns.end(), "dtype");
  if (at == columns.end()) return "f64";
  const auto* text = std::get_if<std::string>(&row[static_cast<size_t>(at - columns.begin())]);
  return text == nullptr ? "f64" : *text;
}

nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

std::vector<std::string> columns_of(SQLite::Statement& statement) {
  std::vector<std::string> names;
  for (int i = 0; i < statement.getColumnCount(); ++i) names.emplace_back(statement.getColumnName(i));
  return names;
}

std::vector<Value> row_of(SQLite::Statement& statement) {
  std::vector<Value> row;
  for (int i = 0; i < statement.getColumnCount(); ++i) row.push_back(value_at(statement, i));
  return row;
}

Table table_of(SQLite::Database& db, const std::string& query) {
  SQLite::Statement statement(db, query);
  Table table{columns_of(statement), {}};
  while (statement.executeStep()) table.rows.push_back(row_of(statement));
  return table;
}

nlohmann::ordered_json json_of(const std::vector<std::string>& columns, const std::vector<Value>& row) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i];
    auto& place = object[name];
    if (const auto* text = std::get_if<std::string>(&row[i])) {
      place = utf8(*text);
    } else if (const auto* real = std::get_if<double>(&row[i])) {
      place = number(*real);
      if (!has(columns, name + "_bits"))
        object[name + "_bits"] = dashboard::hex(std::bit_cast<uint64_t>(*real), "f64");
    } else if (const auto* integer = std::get_if<int64_t>(&row[i])) {
      if (name.ends_with("_bits"))
        place = dashboard::hex(dashboard::from_column(*integer),
                               in_dtype_of_row(name) ? dtype_of(columns, row) : "f64");
      else if (*integer > kExact || *integer < -kExact)
        place = std::to_string(*integer);
      else
        place = *integer;
    }
  }
  return object;
}

nlohmann::ordered_json json_of(const Table& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) rows.push_back(json_of(table.columns, row));
  return rows;
}

}  // namespace lockstep::output
