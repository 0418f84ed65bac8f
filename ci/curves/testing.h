// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <string>

#include "ci/curves/read.h"
#include "engine/values/error.h"

namespace lockstep::curves::testing {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-curves-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& bytes) const {
    const auto file = path / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
};

// The message of the Error that reading throws; "" if none.
inline std::string refusal(const std::string& path, const ReadOptions& options = {}) {
  try {
    read(path, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline bool noted(const std::vector<std::string>& notes, const std::string& part) {
  for (const auto& note : notes)
    if (has(note, part)) return true;
  return false;
}

inline Number f64(double value) {
  return {std::bit_cast<uint64_t>(value), "f64", 0, 0};
}

inline std::vector<int64_t> steps_of(const Log& log) {
  std::vector<int64_t> steps;
  for (const auto& point : log.points) steps.push_back(point.step);
  return steps;
}

}  // namespace lockstep::curves::testing
