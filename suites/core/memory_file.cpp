// SPDX-License-Identifier: Apache-2.0
#include "suites/core/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/values/error.h"

namespace lockstep::suites {

MemoryFile::MemoryFile() : fd(memfd_create("lockstep", MFD_CLOEXEC)) {}
MemoryFile::~MemoryFile() {
  close(fd);
}

std::string MemoryFile::path() const {
  return concat("/proc/self/fd/", fd);
}

ProcessLog::ProcessLog(int64_t process) {
  static int made = 0;
  const auto name = concat("lockstep-", getpid(), "-", ++made, "-process-", process, ".log");
  path_ = (std::filesystem::temp_directory_path() / name).string();
}

void ProcessLog::save() const {
  std::ofstream(path_, std::ios::binary) << text();
}

std::string ProcessLog::last_words() const {
  constexpr size_t kMost = 400;
  auto all = text();
  all.erase(all.find_last_not_of('\n') + 1);
  return all.empty() ? "" : "; its log ends with: " + all.substr(all.size() - std::min(all.size(), kMost));
}

std::string ProcessLog::text() const {
  std::string all(static_cast<size_t>(std::max<off_t>(0, lseek(memory_.fd, 0, SEEK_END))), '\0');
  const ssize_t n = pread(memory_.fd, all.data(), all.size(), 0);
  return all.substr(0, n > 0 ? static_cast<size_t>(n) : 0);
}

}  // namespace lockstep::suites
