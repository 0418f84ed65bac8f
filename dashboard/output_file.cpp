// SPDX-License-Identifier: Apache-2.0
#include "dashboard/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "dashboard/store.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kBuffer = 1 << 16;

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// A terminal, a pipe, /dev/full: a rename would put a file in its place.
bool is_device(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    descriptor_ = STDOUT_FILENO;
    std::fflush(stdout);
    return;
  }
  if (!is_device(path_)) temporary_ = path_ + ".new-" + std::to_string(getpid());
  descriptor_ =
      open((temporary_.empty() ? path_ : temporary_).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (descriptor_ > STDOUT_FILENO) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
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
  if (temporary_.empty()) return;
  if (fsync(descriptor_) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
}

void OutputFile::fail() {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const bool forbidden = error == EACCES || error == EROFS || error == EPERM;
  throw StoreError(
      full        ? StoreError::Kind::kFull
      : forbidden ? StoreError::Kind::kReadonly
                  : StoreError::Kind::kUnreadable,
      "[output] " + path_ + ": " + std::strerror(error) + "; choose another file with -o, or make room");
}

void write_whole(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace lockstep::dashboard
