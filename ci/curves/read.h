// SPDX-License-Identifier: Apache-2.0
// Readers of other people's loss curves. README.md has the formats.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ci/curves/log.h"

namespace lockstep::curves {

struct ReadOptions {
  std::string format = "auto";  // or "jsonl", "csv", "torchtitan"
  // Keys or columns that hold the numbers; empty: the first of the usual ones that the file has.
  std::string step{}, loss{}, grad_norm{};
  std::string round_trip{};       // "f32", "f64": decimal texts read back as the same bits; empty: no promise
  std::optional<int64_t> rank{};  // torchtitan: whose lines count; empty: the lowest rank that wrote a step
};

// The steps of one run. A file without a single step is no error: the Log has no points.
// Throws Error for what is not of the format or is damaged, with the place and the remedy; a file that ends
// too early gives what it has, and a note.
Log read(const std::string& path, const ReadOptions& options);

Log read_jsonl(const std::string& path, const ReadOptions& options);
Log read_csv(const std::string& path, const ReadOptions& options);
Log read_torchtitan(const std::string& path, const ReadOptions& options);

// The names by which a quantity goes, the likeliest first.
std::span<const char* const> usual_steps();
std::span<const char* const> usual(Field field);
const std::string& asked(const ReadOptions& options, Field field);

}  // namespace lockstep::curves
