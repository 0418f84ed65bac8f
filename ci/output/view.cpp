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

Value value_of(const SQLite::Column& column) {
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  if (column.isText()) return column.getString();
  if (column.isBlob())
    return dashboard::hex(
        {static_cast<const uint8_t*>(column.getBlob()), static_cast<size_t>(column.getBytes())});
  return {};
}

bool has(const Row& row, const std::string& name) {
  return std::find(row.columns->begin(), row.columns->end(), name) != row.columns->end();
}

// Some columns of bits have the dtype of the row; the others hold doubles.
std::string dtype_of(const Row& row, const std::string& name) {
  const bool of_row =
      name == "expected_bits" || name == "actual_bits" || name == "loss_bits" || name == "grad_norm_bits";
  const std::string dtype = of_row && has(row, "dtype") ? row.text("dtype") : "";
  return dtype.empty() ? "f64" : dtype;
}

nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

std::shared_ptr<const Columns> columns_of(SQLite::Statement& statement) {
  Columns names;
  for (int i = 0; i < statement.getColumnCount(); ++i) names.emplace_back(statement.getColumnName(i));
  return std::make_shared<const Columns>(std::move(names));
}

Row row_of(SQLite::Statement& statement, const std::shared_ptr<const Columns>& columns) {
  Row row{columns, {}};
  for (int i = 0; i < statement.getColumnCount(); ++i) row.values.push_back(value_of(statement.getColumn(i)));
  return row;
}

Table table_of(SQLite::Database& db, const std::string& query) {
  SQLite::Statement statement(db, query);
  const auto columns = columns_of(statement);
  Table table;
  while (statement.executeStep()) table.push_back(row_of(statement, columns));
  return table;
}

nlohmann::ordered_json json_of(const Row& row) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (size_t i = 0; i < row.values.size(); ++i) {
    const std::string& name = (*row.columns)[i];
    if (object.contains(name)) continue;
    auto& place = object[name];
    if (const auto* text = std::get_if<std::string>(&row.values[i])) {
      place = utf8(*text);
    } else if (const auto* real = std::get_if<double>(&row.values[i])) {
      place = number(*real);
      if (!has(row, name + "_bits"))
        object[name + "_bits"] = dashboard::hex(std::bit_cast<uint64_t>(*real), "f64");
    } else if (const auto* integer = std::get_if<int64_t>(&row.values[i])) {
      if (name.ends_with("_bits"))
        place = dashboard::hex(dashboard::from_column(*integer), dtype_of(row, name));
      else if (*integer > kExact || *integer < -kExact)
        place = std::to_string(*integer);
      else
        place = *integer;
    }
  }
  return object;
}

}  // namespace lockstep::output
