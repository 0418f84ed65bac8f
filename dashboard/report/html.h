// SPDX-License-Identifier: Apache-2.0
// Text of the report: escaping, numbers for people, and rows of a query.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::dashboard::html {

// Law: the result is valid UTF-8, holds no < > & " ', and no control character but newline and tab; what is
// not UTF-8, and other control characters, become U+FFFD. Safe between tags and in quoted attributes.
std::string escape(std::string_view text);

// The escaped text; of a longer one the first `most` bytes, at a boundary of UTF-8, and "…".
std::string cut(std::string_view text, size_t most);

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

// Only letters, digits and -._~ stay: safe in a path, in a query and, without escaping, in an attribute.
std::string url_encode(std::string_view text);
// A box with a label, a button that copies, and a text that is shown as it is; `id` is its element.
std::string code_block(std::string_view id, std::string_view label, std::string_view text);
// A place for a chart of page.js, named for those who do not see it.
std::string figure(const std::string& id, const std::string& caption);
// A notice in a box; `kind`: "good", "warn", "bad" or "".
std::string notice(std::string_view words, std::string_view kind = "");

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
  // The table, or this notice if it has no row.
  std::string html_or(std::string_view words, std::string_view kind = "") const;

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

using Parameters = std::vector<std::pair<std::string, std::string>>;

// The database as a panel sees it. The queries name the views; `shown` is the table of the runs that the page
// speaks about. `site` is where the pages about this database are ("/db/run"), empty on a page that stands
// alone; `scope` goes along with every link.
class Source {
 public:
  explicit Source(SQLite::Database& db, std::string site = "", Parameters scope = {})
      : db_(db), site_(std::move(site)), scope_(std::move(scope)) {}
  // The same, whose links forget the scope.
  Source without_scope() const { return Source(db_, site_); }
  bool has_site() const { return !site_.empty(); }
  // "/db/run/cases?op=aten%3A%3Amm", ready for an attribute.
  std::string href(std::string_view page, const Parameters& parameters = {}) const;
  // `inner` (HTML) as a link to a page of the site; without a site `inner` alone.
  std::string link(std::string_view inner, std::string_view page, const Parameters& parameters = {}) const;
  // Binds the texts to the query's `?`, in order. @returns how many rows there were.
  int64_t each(const std::string& query, const std::function<void(const Row&)>& use,
               const std::vector<std::string>& texts = {}) const;
  int64_t integer(const std::string& query) const { return db_.execAndGet(query).getInt64(); }
  std::string text(const std::string& query, const std::vector<std::string>& texts = {}) const;

 private:
  SQLite::Database& db_;
  std::string site_;
  Parameters scope_;
};

}  // namespace lockstep::dashboard
