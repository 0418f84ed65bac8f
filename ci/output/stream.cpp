// SPDX-License-Identifier: Apache-2.0
// Rows of any view as they come from SQLite: JSON, JSON lines, CSV.
#include <charconv>

#include "ci/output/output.h"
#include "ci/output/text.h"
#include "ci/output/view.h"
#include "engine/values/error.h"

namespace lockstep::output {
namespace {

// A name becomes part of a statement only if it is that of a view of the store.
std::string checked(SQLite::Database& db, const std::string& view) {
  std::string known;
  for (const Row& row :
       table_of(db, "SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*' ORDER BY name")) {
    if (row.text("name") == view) return view;
    known += (known.empty() ? "" : ", ") + row.text("name");
  }
  throw Error("[export] no view is called '" + one_line(cut(utf8(view), 200)) + "'; there are: " + known);
}

template <class Begin, class Each>
void stream(const dashboard::Store& store, const std::string& view, Begin&& begin, Each&& each) {
  try {
    SQLite::Statement rows(store.database(), "SELECT * FROM " + checked(store.database(), view));
    const auto columns = columns_of(rows);
    begin(*columns);
    while (rows.executeStep()) each(row_of(rows, columns));
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(store.path());
  }
}

nlohmann::ordered_json head_of(const std::string& view, const Columns& columns) {
  return {{"schema", kSchema}, {"tool_version", tool_version()}, {"view", view}, {"columns", columns}};
}

// The shortest text that reads back as the same double.
std::string shortest(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

// A spreadsheet takes a field that begins so for a formula. With an apostrophe in front it is text; a text
// that begins with an apostrophe gets one more, so that taking one away is always right.
bool guarded(const std::string& text) {
  return !text.empty() && std::string_view("=+-@\t\r'").find(text[0]) != std::string_view::npos;
}

std::string quoted(const std::string& text) {
  std::string field = "\"";
  if (guarded(text)) field += '\'';
  for (const char c : text) {
    if (c == '"') field += '"';
    if (c == '\0')
      field += "\xef\xbf\xbd";  // no reader of CSV knows what to do with it
    else
      field += c;
  }
  return field + "\"";
}

std::string field_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(utf8(*text));
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return shortest(*real);
  return "";
}

template <class Parts, class Field>
std::string line_of(const Parts& parts, Field&& field) {
  std::string line;
  for (const auto& part : parts) line += (line.empty() ? "" : ",") + field(part);
  return line + "\r\n";
}

}  // namespace

void write_view_json(const dashboard::Store& store, const std::string& view, const Sink& sink) {
  const char* before = "\n";
  const auto begin = [&](const Columns& columns) {
    std::string head = head_of(view, columns).dump();
    head.pop_back();  // the object goes on
    sink(head + ",\"rows\":[");
  };
  stream(store, view, begin,
         [&](const Row& row) { sink(std::exchange(before, ",\n") + json_of(row).dump()); });
  sink("\n]}\n");
}

void write_view_jsonl(const dashboard::Store& store, const std::string& view, const Sink& sink) {
  const auto begin = [&](const Columns& columns) { sink(head_of(view, columns).dump() + "\n"); };
  stream(store, view, begin, [&](const Row& row) { sink(json_of(row).dump() + "\n"); });
}

void write_view_csv(const dashboard::Store& store, const std::string& view, const Sink& sink) {
  const auto begin = [&](const Columns& columns) { sink(line_of(columns, std::identity())); };
  stream(store, view, begin, [&](const Row& row) { sink(line_of(row.values, field_of)); });
}

}  // namespace lockstep::output
