// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dashboard/store/store.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kBuffer = 1 << 16;

// A terminal, a pipe, /dev/full: a rename would put a file in its place.
bool is_device(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}

[[noreturn]] void refuse_database(const std::string& path, const std::string& option) {
  throw StoreError(StoreError::Kind::kOutput, "[output] " + path + ": is a database, and " + option +
                                                  " would replace it; name another file");
}

bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code none, unknown;  // of files that are not there yet
  if (fs::equivalent(a, b, none)) return true;
  const auto whole = fs::weakly_canonical(fs::absolute(a), unknown);
  return !unknown && whole == fs::weakly_canonical(fs::absolute(b), unknown) && !unknown;
}

// All of it, whatever interrupts; @returns false, with errno, if it cannot.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

TemporaryFile::~TemporaryFile() {
  if (!path.empty()) unlink(path.c_str());
}

OutputFile::OutputFile(std::string path, std::string option)
    : path_(std::move(path)), option_(std::move(option)) {
  if (path_ == "-") {
    descriptor_ = STDOUT_FILENO;
    std::fflush(stdout);
    return;
  }
  if (is_database(path_)) refuse_database(path_, option_);
  if (std::error_code none; std::filesystem::is_directory(path_, none)) {
    errno = EISDIR;
    fail();
  }
  if (!is_device(path_)) temporary_.path = path_ + ".new-" + std::to_string(getpid());
  descriptor_ = open((temporary_.path.empty() ? path_ : temporary_.path).c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (descriptor_ > STDOUT_FILENO) close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) flush();
}

void OutputFile::flush() {
  if (!write_all(descriptor_, buffer_)) fail();
  buffer_.clear();
}

void OutputFile::commit() {
  flush();
  if (temporary_.path.empty()) return;
  if (fsync(descriptor_) != 0 || rename(temporary_.path.c_str(), path_.c_str()) != 0) fail();
  temporary_.path.clear();
}

void OutputFile::fail() {
  const int error = errno;
  const auto kind = kind_of_errno(error);
  throw StoreError(kind, "[output] " + path_ + ": " + std::strerror(error) + "; choose another file with " +
                             option_ + (kind == StoreError::Kind::kFull ? ", or make room" : ""));
}

void write_whole(const std::string& path, std::string_view text, const std::string& option) {
  OutputFile file(path, option);
  file.write(text);
  file.commit();
}

bool is_database(const std::string& path) {
  constexpr std::string_view kHead("SQLite format 3", 16);  // with the zero that ends it
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  std::ifstream in(path, std::ios::binary);
  std::string head(kHead.size(), '\0');
  return in.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kHead;
}

void check_not_database(const std::string& path, const std::string& database, const std::string& option) {
  if (path != "-" && is_same_file(path, database)) refuse_database(path, option);
}

void check_output(const std::string& path, const std::string& database, const std::string& option) {
  if (path.empty()) return;
  check_not_database(path, database, option);
  if (!is_device(path)) const OutputFile tried(path, option);
}

}  // namespace lockstep::dashboard
