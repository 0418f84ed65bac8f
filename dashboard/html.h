// SPDX-License-Identifier: Apache-2.0
// Text of the report: escaping, numbers for people, and rows of a query.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::dashboard::html {

// Law: the result is valid UTF-8, holds no < > & " ', and no control character but newline and tab; what is
// not UTF-8, and other control characters, become U+FFFD. Safe between tags and in quoted attributes.
std::string escape(std::string_view text);

// "1,234,567"
std::string grouped(int64_t n);
// "12.3 MiB"
std::string bytes(double n);
// "1 min 5 s", "3.2 s", "14 ms"
std::string duration(double seconds);
// Three significant digits: "0.0123", "1,234", "6.2e-05"
std::string brief(double value);
// "1 case", "2 cases"
std::string plural(int64_t n, std::string_view singular, std::string_view many);
// "2026-01-02 03:04 UTC"
std::string time(int64_t epoch_seconds);

// `data-s` classes of the verdicts are their names; this is the word for people: "explained: local kernel".
std::string verdict_words(std::string_view verdict);
// A coloured chip with the glyph and the words of a verdict.
std::string verdict_chip(std::string_view verdict);
// A button that copies the text of the element with this id.
std::string copy_button(std::string_view id, std::string_view what);

// A table; on a phone each row of a `stack` becomes a card that names its columns.
struct Column {
  const char* title;
  const char* kind = "";  // "key": the row's name; "num": to the right; "wide": takes the room
};
class Table {
 public:
  Table(std::string caption, std::vector<Column> columns, std::string classes = "stack");
  // @pre as many cells as columns, each HTML.
  void row(const std::vector<std::string>& cells);
  int64_t rows() const { return rows_; }
  // "" if there is no row.
  std::string html() const;

 private:
  std::string caption_, classes_, body_;
  std::vector<Column> columns_;
  int64_t rows_ = 0;
};
// "✓ found" in green, "✗ survived" in red.
std::string yes_no(bool yes, std::string_view yes_word, std::string_view no_word);

}  // namespace lockstep::dashboard::html

namespace lockstep::dashboard {

// One row of a query; columns by number, as text, integer or number.
class Row {
 public:
  explicit Row(SQLite::Statement& statement) : statement_(statement) {}
  bool null(int i) const { return statement_.isColumnNull(i); }
  std::string text(int i) const { return null(i) ? "" : statement_.getColumn(i).getString(); }
  std::string html(int i) const { return html::escape(text(i)); }
  int64_t integer(int i) const { return statement_.getColumn(i).getInt64(); }
  double number(int i) const { return statement_.getColumn(i).getDouble(); }
  std::string grouped(int i) const { return null(i) ? "–" : html::grouped(integer(i)); }
  std::string brief(int i) const { return null(i) ? "–" : html::brief(number(i)); }

 private:
  SQLite::Statement& statement_;
};

// The database as a panel sees it. The queries name the views; `shown` is the table of the runs that the page
// speaks about.
class Source {
 public:
  explicit Source(SQLite::Database& db) : db_(db) {}
  // Binds the texts to the query's `?`, in order. @returns how many rows there were.
  int64_t each(const std::string& query, const std::function<void(const Row&)>& use,
               const std::vector<std::string>& texts = {}) const;
  int64_t integer(const std::string& query) const { return db_.execAndGet(query).getInt64(); }
  std::string text(const std::string& query) const;

 private:
  SQLite::Database& db_;
};

}  // namespace lockstep::dashboard
