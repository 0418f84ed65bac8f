// SPDX-License-Identifier: Apache-2.0
// Every case of a store by what one filters it by, in columns of small numbers: a million cases are filtered
// and counted in milliseconds, whatever the combination.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace SQLite {
class Database;
}

namespace lockstep::dashboard {

class CaseIndex {
 public:
  // What one chooses a value of; the names are those of the columns of v_cases.
  static constexpr std::array<const char*, 6> kFacets = {"suite", "verdict", "placement",
                                                         "mesh",  "dtype",   "evenness"};
  using Facet = size_t;  // position in kFacets

  struct Filter {
    std::vector<int64_t> runs{};
    std::string op{};                                 // any op of the case; empty: all
    std::array<std::string, kFacets.size()> value{};  // empty: all
  };
  struct Found {
    int64_t cases = 0;
    std::vector<int64_t> ids{};  // of the page that was asked for, in the order of the store
    // By facet and value: how many cases the filter would find if this were the facet's value.
    std::array<std::map<std::string_view, int64_t>, kFacets.size()> counts{};
  };

  // Reads v_cases once.
  explicit CaseIndex(SQLite::Database& db);

  // Law: `ids` are the cases [first, first + most) of those that `SELECT case_id FROM v_cases WHERE …
  // ORDER BY case_id` gives, and `cases` is their number.
  Found find(const Filter& filter, int64_t first, int64_t most) const;
  // Op -> mesh -> verdict -> cases, of the cases that contain the op.
  using ByMesh = std::map<std::string_view, std::map<std::string_view, std::map<std::string_view, int64_t>>>;
  ByMesh by_mesh(const std::vector<int64_t>& runs) const;
  std::vector<std::string_view> ops() const;
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

 private:
  // A column of texts, each told by its number.
  struct Column {
    std::vector<std::string> words;
    std::map<std::string, uint32_t, std::less<>> numbers;
    std::vector<uint32_t> cells;
    uint32_t number_of(std::string_view word);
  };
  void add_ops(std::string_view op, std::string_view ops, uint32_t position);

  std::vector<int64_t> ids_;
  std::vector<int64_t> run_ids_;  // by number
  std::vector<uint32_t> run_cells_;
  std::array<Column, kFacets.size()> columns_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> by_op_;  // op -> positions, ascending
};

}  // namespace lockstep::dashboard
