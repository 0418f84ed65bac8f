// SPDX-License-Identifier: Apache-2.0
// Files in memory that processes share: nothing of them is left to remove, whoever is killed.
#pragma once
#include <cstdint>
#include <string>

namespace lockstep::suites {

struct MemoryFile {
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;  // here, and in a process that inherits `fd`
  const int fd;
};

// What a process writes to its standard error, and a path that people are told, where save() puts it.
class ProcessLog {
 public:
  explicit ProcessLog(int64_t process);
  const std::string& path() const { return path_; }
  int fd() const { return memory_.fd; }
  void save() const;
  // "; its log ends with: …" if there is anything.
  std::string last_words() const;

 private:
  std::string text() const;

  MemoryFile memory_;
  std::string path_;
};

}  // namespace lockstep::suites
