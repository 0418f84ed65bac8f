// SPDX-License-Identifier: Apache-2.0
// The database as a page sees it: its rows as markup. The queries name the views and what functions.h adds to
// SQL; `shown` is the table of the runs that the page speaks about.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::dashboard {

using Parameters = std::vector<std::pair<std::string, std::string>>;
using Texts = std::vector<std::string>;  // for the ?1, ?2 … of a query

// One row of a query; columns by number.
class Row {
 public:
  explicit Row(SQLite::Statement& statement) : statement_(statement) {}
  std::string text(int i) const { return statement_.getColumn(i).getString(); }
  int64_t integer(int i) const { return statement_.getColumn(i).getInt64(); }
  // Markup: a blob is markup already, a text is escaped, numbers are as people write them, NULL is "–".
  std::string cell(int i) const;
  std::string cells() const;  // all, one after the other
  // null for what JSON cannot say: infinities.
  nlohmann::json json(int i) const;
  int columns() const { return statement_.getColumnCount(); }

 private:
  SQLite::Statement& statement_;
};

// A piece of a panel, see panels.sql: a table or a list of the rows of a query, markup, or what a function
// draws.
struct Part {
  std::string caption{};
  std::string query{};              // none: `before` alone
  std::string none{}, none_kind{};  // a notice in place of no rows; "good" or ""
  std::string before{}, after{};    // around rows; a query in braces stands for its cells, ?9 is their number
  std::string classes = "stack";    // of a table
  std::string item{}, list{};       // elements in place of a table: of each row, and around all
  std::string draw{};
};

// What is asked with `texts` may name ?1, ?2 …; more or fewer of them do no harm. `site` is where the pages
// about this database are ("/db/run"), empty on a page that stands alone; `scope` goes along with every link.
class Source {
 public:
  // Adds the functions to the connection: the newest source of a connection is the one that links are of.
  explicit Source(SQLite::Database& db, std::string site = "", Parameters scope = {});
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& site() const { return site_; }
  // "/db/run/cases?op=aten%3A%3Amm"; "" without a site.
  std::string href(std::string_view page, const Parameters& parameters = {}) const;
  // `inner` (markup) as a link to a page of the site; without a site `inner` alone.
  std::string link(std::string_view inner, std::string_view page, const Parameters& parameters = {}) const;

  // @returns how many rows there were.
  int64_t each(const std::string& query, const std::function<void(const Row&)>& use, const Texts& texts = {},
               int64_t rows = 0) const;
  // The first column of the first row; 0 or "" without one.
  int64_t integer(const std::string& query, const Texts& texts = {}) const;
  std::string text(const std::string& query, const Texts& texts = {}) const;
  // The columns by name, each an array.
  nlohmann::json columns(const std::string& query, const Texts& texts = {}) const;
  // The template with what is in braces replaced: queries by the cells of their rows, ?1 by `argument`(1).
  std::string fill(std::string_view text, const Texts& texts = {}, int64_t rows = 0,
                   const std::function<std::string(int)>& argument = {}) const;
  // A part of rows or markup. On a phone each row of a table of the class `stack` becomes a card that names
  // its columns.
  std::string rows(const Part& part, const Texts& texts = {}) const;

 private:
  SQLite::Database& db_;
  std::string site_;
  Parameters scope_;
};

}  // namespace lockstep::dashboard
