// SPDX-License-Identifier: Apache-2.0
// Writes what the engine did as a log of digests, in the form that `lockstep curves import --hashes` reads.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "engine/values/timeline.h"

namespace lockstep::suites {

// Whether the results, or rrelu's noise, are memory that nobody has written: two runs in one process find
// other digests there, and so in an input that is overwritten and not read. Runs in processes of their own
// may find the same.
bool leaves_unwritten(const std::string& op);
bool is_read(const TimelineEntry& entry, size_t input);

// One JSON object for each step, entry and rank: {"step","seq","op","rank","phase","inputs","outputs"};
// `phase` is "implicit" for redistributions that the engine inserted. A value that means nothing is null:
// what an op overwrites without reading it, what `empty` gives. Every member throws Error if the file cannot
// be written.
class HashLog {
 public:
  explicit HashLog(std::string path);
  // @pre steps do not go back
  void write(int64_t step, const Timeline& timeline);
  // What is not closed may be incomplete.
  void close();

 private:
  void check(bool good) const;
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace lockstep::suites
