// SPDX-License-Identifier: Apache-2.0
// A log of digests, one JSON object for each op, step and rank; read step by step, so that memory is bounded
// by the largest step.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ci/curves/lines.h"
#include "dashboard/store/rows.h"

namespace lockstep::curves {

// Texts that come again and again, as numbers.
class Names {
 public:
  uint32_t of(const std::string& text);
  const std::string& at(uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

struct HashEntry {
  int64_t step = 0, rank = 0;
  int64_t seq = 0;             // within step and rank
  uint32_t op = 0, phase = 0;  // in Names
  bool has_inputs = false;
  dashboard::Key inputs{}, outputs{};  // hashes of the lists of digests
  uint32_t file = 0;
  uint64_t offset = 0;  // of its line
  int64_t line = 0;
};

// The lists of one entry, read again from its line.
struct Digests {
  std::vector<std::string> inputs{}, outputs{};
};

// A file, or a folder whose *.jsonl files (one a rank, for example) are read side by side. Steps must not go
// back within a file. Throws Error with the place for whatever is not as README.md says.
class HashLog {
 public:
  // `names` is shared by the logs that are compared.
  HashLog(const std::string& path, Names& names);
  ~HashLog();

  std::optional<int64_t> next_step();
  // The entries of the next step, by rank and position. @pre next_step() is not empty
  std::vector<HashEntry> take_step();
  Digests digests(const HashEntry& entry) const;

  int64_t entries() const { return entries_; }
  // Files that end within a line: their last line is left out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Source;
  void advance(Source& source);
  Names& names_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::string> notes_;
  int64_t entries_ = 0;
};

// More entries of one step than this are refused.
inline constexpr size_t kMostEntriesOfStep = 4'000'000;

}  // namespace lockstep::curves
