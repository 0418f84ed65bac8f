// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: temporary folders, sample rows, and the content of a store as text.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard::testing {

namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    // In memory where possible: these tests commit thousands of times.
    const fs::path root = access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string name = (root / "lockstep-test-XXXXXX").string();
    path = mkdtemp(name.data());
    fs::permissions(path, fs::perms::all);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline Run sample_run(const std::string& id = "2026-01-02-ab12") {
  Run run;
  run.id = id;
  run.command = "lockstep run --seed 7";
  run.seed = 7;
  run.numerics = "exact";
  run.plan = R"({"suites":[{"name":"ops","least":2}],"labels":[{"name":"uneven","least":1}]})";
  run.build_hash = "b0b0";
  run.commit = "c0ffee";
  run.cpu = "Test CPU";
  run.compiler = "g++ 12.2";
  run.libtorch = "2.11.0";
  run.cores = 2;
  run.started_ms = 1'760'000'000'000;
  run.ended_ms = 1'760'000'090'000;
  return run;
}

inline CaseRow sample_case(int64_t number, Verdict verdict = Verdict::kEqual) {
  CaseRow row;
  row.token = "v1:case-" + std::to_string(number);
  row.suite = "ops";
  row.law = "op equals oracle";
  row.number = number;
  row.ops = row.op = "aten::mm";
  row.mesh = "2x2";
  row.verdict = verdict;
  row.placement = "S0,R";
  row.mesh_rank = 2;
  row.evenness = "uneven";
  row.dtype = "f32";
  row.how = "random";
  row.time_ns = 1'000'000 + number;
  row.labels = {"uneven"};
  row.coverage = {{"aten::mm", "S0,R", 2, "uneven", verdict}};
  if (verdict != Verdict::kEqual) {
    row.explanation = "the order of aten::mm";
    TensorDiff diff;
    diff.value = "v1";
    diff.bit_class = "ulp";
    diff.dtype = "f32";
    diff.elements = 91;
    diff.different = 3;
    diff.max_ulp = 1;
    diff.first_index = {3, 4};
    row.diffs = {diff};
  }
  if (is_failure(verdict))
    row.bucket = "op equals oracle|" + std::string(name(verdict)) + "|aten::mm|S0,R|f32";
  return row;
}

inline int64_t count(const Store& store, const std::string& query) {
  return store.database().execAndGet("SELECT count(*) FROM " + query).getInt64();
}

// Every row of every table as text, sorted, with content in place of row numbers: equal for equal stores.
inline std::vector<std::string> content(const Store& store) {
  SQLite::Database& db = store.database();
  std::vector<std::string> lines;
  SQLite::Statement tables(
      db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  while (tables.executeStep()) {
    const std::string table = tables.getColumn(0).getString();
    std::string columns = "'" + table + "'";
    SQLite::Statement info(db, "SELECT name FROM pragma_table_info('" + table + "')");
    while (info.executeStep()) {
      std::string column = "t." + info.getColumn(0).getString();
      if (column == "t.id") continue;
      if (column == "t.run") column = "(SELECT key FROM run WHERE id = t.run)";
      if (column == "t.case_id") column = "(SELECT key || outcome FROM cases WHERE id = t.case_id)";
      if (column == "t.curve") column = "(SELECT name || policy FROM curve WHERE id = t.curve)";
      columns += " || '|' || quote(" + column + ")";
    }
    SQLite::Statement rows(db, "SELECT " + columns + " FROM " + table + " t");
    while (rows.executeStep()) lines.push_back(rows.getColumn(0).getString());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The kind of the StoreError that the action throws; fails the test if it throws none.
template <class Action>
StoreError::Kind error_of(Action&& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const StoreError& e) {
    if (message) *message = e.what();
    return e.kind;
  }
  ADD_FAILURE() << "no StoreError";
  return {};
}

}  // namespace lockstep::dashboard::testing
