// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/source.h"

#include <cmath>

#include "dashboard/report/functions.h"
#include "dashboard/report/html.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

namespace {

constexpr int kRowsParameter = 9;

void set(SQLite::Statement& statement, const Texts& texts, int64_t rows) {
  const int wanted = statement.getBindParameterCount();
  for (size_t i = 0; i < texts.size() && static_cast<int>(i) < wanted; ++i)
    statement.bind(static_cast<int>(i + 1), texts[i]);
  if (wanted >= kRowsParameter) statement.bind(kRowsParameter, rows);
}

struct Column {
  std::string title, kind;
};

std::vector<Column> columns_of(const SQLite::Statement& statement) {
  std::vector<Column> columns;
  for (int i = 0; i < statement.getColumnCount(); ++i) {
    const std::string title = statement.getColumnName(i);
    const std::string kind = i == 0 ? "key" : title[0] == '#' ? "num" : title[0] == '=' ? "wide" : "";
    columns.push_back({kind == "num" || kind == "wide" ? title.substr(1) : title, kind});
  }
  return columns;
}

std::string table_row(const Row& row, const std::vector<Column>& columns) {
  std::string all = html::element("th scope=\"row\"", row.cell(0));
  for (size_t i = 1; i < columns.size(); ++i) {
    const auto& [title, kind] = columns[i];
    all += html::element(
        (kind.empty() ? "td" : "td." + kind) + (kind == "wide" ? "" : " data-l=\"" + title + "\""),
        row.cell(static_cast<int>(i)));
  }
  return html::element("tr", all);
}

std::string table(const Part& part, const std::vector<Column>& columns, const std::string& rows) {
  std::string head;
  for (const auto& [title, kind] : columns)
    head += html::element("th scope=\"col\" class=\"" + kind + "\"", title);
  return "<div class=\"scroll\"><table class=\"" + part.classes + "\"><caption class=\"hidden\">" +
         part.caption + "</caption><thead><tr>" + head + "</tr></thead><tbody>" + rows +
         "</tbody></table></div>";
}

}  // namespace

std::string Row::cell(int i) const {
  const SQLite::Column column = statement_.getColumn(i);
  if (column.isNull()) return "–";
  if (column.isInteger()) return html::grouped(column.getInt64());
  if (column.isFloat()) return html::brief(column.getDouble());
  return column.isBlob() ? column.getString() : html::escape(column.getString());
}

std::string Row::cells() const {
  std::string all;
  for (int i = 0; i < columns(); ++i) all += cell(i);
  return all;
}

nlohmann::json Row::json(int i) const {
  const SQLite::Column column = statement_.getColumn(i);
  if (column.isInteger()) return column.getInt64();
  if (column.isText()) return column.getString();
  if (column.isFloat() && std::isfinite(column.getDouble())) return column.getDouble();
  return nullptr;
}

Source::Source(SQLite::Database& db, std::string site, Parameters scope)
    : db_(db), site_(std::move(site)), scope_(std::move(scope)) {
  add_functions(db_, *this);
  db_.exec(page_views());
}

std::string Source::href(std::string_view page, const Parameters& parameters) const {
  if (site_.empty()) return "";
  std::string out = site_ + "/" + std::string(page);
  char joint = '?';
  for (const Parameters* list : {&parameters, &scope_}) {
    for (const auto& [name, value] : *list) {
      if (value.empty()) continue;
      out += joint + html::url_encode(name) + "=" + html::url_encode(value);
      joint = '&';
    }
  }
  return out;
}

std::string Source::link(std::string_view inner, std::string_view page, const Parameters& parameters) const {
  if (site_.empty()) return std::string(inner);
  return html::element("a href=\"" + html::escape(href(page, parameters)) + "\"", inner);
}

int64_t Source::each(const std::string& query, const std::function<void(const Row&)>& use, const Texts& texts,
                     int64_t rows) const {
  SQLite::Statement statement(db_, query);
  set(statement, texts, rows);
  int64_t seen = 0;
  for (; statement.executeStep(); ++seen) use(Row(statement));
  return seen;
}

int64_t Source::integer(const std::string& query, const Texts& texts) const {
  SQLite::Statement statement(db_, query);
  set(statement, texts, 0);
  return statement.executeStep() ? Row(statement).integer(0) : 0;
}

std::string Source::text(const std::string& query, const Texts& texts) const {
  SQLite::Statement statement(db_, query);
  set(statement, texts, 0);
  return statement.executeStep() ? Row(statement).text(0) : "";
}

nlohmann::json Source::columns(const std::string& query, const Texts& texts) const {
  nlohmann::json all = nlohmann::json::object();
  SQLite::Statement statement(db_, query);
  set(statement, texts, 0);
  for (int i = 0; i < statement.getColumnCount(); ++i)
    all[statement.getColumnName(i)] = nlohmann::json::array();
  while (statement.executeStep())
    for (int i = 0; i < statement.getColumnCount(); ++i)
      all[statement.getColumnName(i)].push_back(Row(statement).json(i));
  return all;
}

std::string Source::fill(std::string_view text, const Texts& texts, int64_t rows,
                         const std::function<std::string(int)>& argument) const {
  std::string out;
  for (size_t open; (open = text.find('{')) != std::string_view::npos;) {
    const size_t close = text.find('}', open);
    const std::string hole(text.substr(open + 1, close - open - 1));
    out += text.substr(0, open);
    text.remove_prefix(close + 1);
    if (hole.starts_with('?'))
      out += argument(std::stoi(hole.substr(1)));
    else
      each(
          hole, [&](const Row& r) { out += r.cells(); }, texts, rows);
  }
  return out.append(text);
}

std::string Source::rows(const Part& part, const Texts& texts) const {
  if (part.query.empty()) return fill(part.before, texts);
  SQLite::Statement statement(db_, part.query);
  set(statement, texts, 0);
  const std::vector<Column> columns = columns_of(statement);
  std::string all;
  int64_t count = 0;
  for (; statement.executeStep(); ++count) {
    const Row row(statement);
    all += part.item.empty() ? table_row(row, columns) : html::element(part.item, row.cells());
  }
  if (count == 0) {
    const std::string words = fill(part.none, texts);
    return words.empty() ? "" : html::notice(words, part.none_kind);
  }
  if (part.item.empty()) all = table(part, columns, all);
  if (!part.list.empty()) all = html::element(part.list, all);
  return fill(part.before, texts, count) + all + fill(part.after, texts, count);
}

}  // namespace lockstep::dashboard
