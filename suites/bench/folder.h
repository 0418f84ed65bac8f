// SPDX-License-Identifier: Apache-2.0
// A folder of its own, gone at the end.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace lockstep::suites {

struct Folder {
  Folder() {
    auto name = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path;
};

}  // namespace lockstep::suites
