// SPDX-License-Identifier: Apache-2.0
// A log of digests, one JSON object for each op, step and rank; read step by step, so that memory is bounded
// by the largest step.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ci/curves/lines.h"

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

using Digests = std::vector<std::string>;

struct HashEntry {
  int64_t step = 0, rank = 0;
  int64_t seq = 0;             // within step and rank
  uint32_t op = 0, phase = 0;  // in Names
  std::optional<Digests> inputs{};
  Digests outputs{};
  uint32_t file = 0;
  int64_t line = 0;
};

// A file, or a folder whose *.jsonl files (one a rank, for example) are read side by side. Steps must not go
// back within a file. Throws Error with the place for whatever is not as README.md says.
class HashLog {
 public:
  // `names` is shared by the logs that are compared.
  HashLog(const std::string& path, Names& names);

  std::optional<int64_t> next_step();
  // The entries of the next step, by rank and position. @pre next_step() is not empty
  std::vector<HashEntry> take_step();

  // Files that end within a line: their last line is left out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Source {
    Lines lines;
    uint32_t number = 0;
    std::optional<HashEntry> next{};
    std::unordered_map<int64_t, int64_t> counted{};  // lines of a rank within the step, where there is no seq
  };
  void advance(Source& source);
  Names& names_;
  std::vector<Source> sources_;
  std::vector<std::string> notes_;
};

// More entries of one step than this are refused.
inline constexpr size_t kMostEntriesOfStep = 4'000'000;

}  // namespace lockstep::curves
