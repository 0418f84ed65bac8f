// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/case_index.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <limits>

namespace lockstep::dashboard {

namespace {

constexpr uint32_t kAny = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNone = kAny - 1;
constexpr size_t kFacetCount = CaseIndex::kFacets.size();
constexpr CaseIndex::Facet kVerdict = 1, kMesh = 3;

// Kept for the whole walk over the rows: SQLite's own bytes, without a copy.
std::string_view text_of(const SQLite::Column& column) {
  return {column.getText(), static_cast<size_t>(column.getBytes())};
}

}  // namespace

uint32_t CaseIndex::Column::number_of(std::string_view word) {
  if (const auto known = numbers.find(word); known != numbers.end()) return known->second;
  const auto number = static_cast<uint32_t>(words.size());
  words.emplace_back(word);
  numbers.emplace(word, number);
  return number;
}

void CaseIndex::add_ops(std::string_view op, std::string_view ops, uint32_t position) {
  const auto add = [&](std::string_view name) {
    if (name.empty()) return;
    auto found = by_op_.find(name);
    if (found == by_op_.end()) found = by_op_.emplace(name, std::vector<uint32_t>()).first;
    if (found->second.empty() || found->second.back() != position) found->second.push_back(position);
  };
  add(op);
  while (!ops.empty()) {
    const size_t end = std::min(ops.find(' '), ops.size());
    add(ops.substr(0, end));
    ops.remove_prefix(std::min(end + 1, ops.size()));
  }
}

CaseIndex::CaseIndex(SQLite::Database& db) {
  std::string query = "SELECT case_id, run_id, op, ops";
  for (const char* facet : kFacets) query += std::string(", ") + facet;
  SQLite::Statement rows(db, query + " FROM v_cases ORDER BY case_id");
  std::map<int64_t, uint32_t> runs;
  while (rows.executeStep()) {
    const auto position = static_cast<uint32_t>(ids_.size());
    ids_.push_back(rows.getColumn(0).getInt64());
    const int64_t run = rows.getColumn(1).getInt64();
    const auto [known, fresh] = runs.emplace(run, static_cast<uint32_t>(run_ids_.size()));
    if (fresh) run_ids_.push_back(run);
    run_cells_.push_back(known->second);
    add_ops(text_of(rows.getColumn(2)), text_of(rows.getColumn(3)), position);
    for (size_t f = 0; f < kFacetCount; ++f) {
      Column& column = columns_[f];
      column.cells.push_back(column.number_of(text_of(rows.getColumn(static_cast<int>(4 + f)))));
    }
  }
}

CaseIndex::Found CaseIndex::find(const Filter& filter, int64_t first, int64_t most) const {
  std::array<uint32_t, kFacetCount> wanted{};
  std::array<std::vector<int64_t>, kFacetCount> counts;
  for (size_t f = 0; f < kFacetCount; ++f) {
    const Column& column = columns_[f];
    const auto number = column.numbers.find(filter.value[f]);
    wanted[f] = filter.value[f].empty() ? kAny : number == column.numbers.end() ? kNone : number->second;
    counts[f].resize(column.words.size());
  }
  std::vector<uint8_t> shown;
  for (const int64_t run : run_ids_)
    shown.push_back(std::find(filter.runs.begin(), filter.runs.end(), run) != filter.runs.end());
  Found found;
  // A case that misses one facet alone counts for the other values of that facet.
  const auto visit = [&](size_t i) {
    if (!shown[run_cells_[i]]) return;
    size_t misses = 0, missed = 0;
    for (size_t f = 0; f < kFacetCount; ++f) {
      if (wanted[f] == kAny || wanted[f] == columns_[f].cells[i]) continue;
      ++misses;
      missed = f;
    }
    if (misses > 1) return;
    if (misses == 1) {
      ++counts[missed][columns_[missed].cells[i]];
      return;
    }
    for (size_t f = 0; f < kFacetCount; ++f) ++counts[f][columns_[f].cells[i]];
    if (found.cases >= first && found.cases - first < most) found.ids.push_back(ids_[i]);
    ++found.cases;
  };
  if (filter.op.empty()) {
    for (size_t i = 0; i < ids_.size(); ++i) visit(i);
  } else if (const auto list = by_op_.find(filter.op); list != by_op_.end()) {
    for (const uint32_t i : list->second) visit(i);
  }
  for (size_t f = 0; f < kFacetCount; ++f) {
    for (size_t w = 0; w < counts[f].size(); ++w)
      if (counts[f][w] > 0) found.counts[f][columns_[f].words[w]] = counts[f][w];
  }
  return found;
}

CaseIndex::ByMesh CaseIndex::by_mesh(const std::vector<int64_t>& runs) const {
  std::vector<uint8_t> shown;
  for (const int64_t run : run_ids_) shown.push_back(std::find(runs.begin(), runs.end(), run) != runs.end());
  const Column &meshes = columns_[kMesh], &verdicts = columns_[kVerdict];
  ByMesh result;
  std::vector<int64_t> counts(meshes.words.size() * verdicts.words.size());
  for (const auto& [op, positions] : by_op_) {
    std::fill(counts.begin(), counts.end(), 0);
    for (const uint32_t i : positions)
      if (shown[run_cells_[i]]) ++counts[meshes.cells[i] * verdicts.words.size() + verdicts.cells[i]];
    for (size_t at = 0; at < counts.size(); ++at) {
      if (counts[at] == 0) continue;
      const size_t n = verdicts.words.size();
      result[op][meshes.words[at / n]][verdicts.words[at % n]] = counts[at];
    }
  }
  return result;
}

std::vector<std::string_view> CaseIndex::ops() const {
  std::vector<std::string_view> names;
  for (const auto& [op, unused] : by_op_) names.push_back(op);
  return names;
}

}  // namespace lockstep::dashboard
