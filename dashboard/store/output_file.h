// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: the report, exports, published copies. None replaces a database.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::dashboard {

// Removed with its owner, unless it got another name.
struct TemporaryFile {
  std::string path;
  TemporaryFile() = default;
  explicit TemporaryFile(std::string p) : path(std::move(p)) {}
  TemporaryFile(TemporaryFile&& other) noexcept : path(std::exchange(other.path, {})) {}
  TemporaryFile& operator=(TemporaryFile&& other) noexcept {
    std::swap(path, other.path);
    return *this;
  }
  ~TemporaryFile();
};

// Writes beside the path and takes its name only with commit(); without it, and after an error, the path is
// as it was. A device or a pipe, and "-" for standard output, are written to as they are. `option` is what
// named the path on the command line.
// @throws StoreError that names the path and the remedy; kOutput if the path is that of a database.
class OutputFile {
 public:
  explicit OutputFile(std::string path, std::string option = "-o");
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  void flush();
  [[noreturn]] void fail();

  std::string path_, option_;
  TemporaryFile temporary_;  // unnamed: written to as it is
  std::string buffer_;
  int descriptor_ = -1;
};

// The whole text at once.
void write_whole(const std::string& path, std::string_view text, const std::string& option = "-o");

// Whether the file begins as every SQLite database does, ours or another's.
bool is_database(const std::string& path);

// Throws StoreError (kOutput) if the path is that of the database, be it there or not yet.
void check_not_database(const std::string& path, const std::string& database, const std::string& option);

// Asked before the work whose result goes to the path: throws what OutputFile would, also where the path is
// that of the database which the work will make. Changes nothing; an empty path is no output.
void check_output(const std::string& path, const std::string& database, const std::string& option);

}  // namespace lockstep::dashboard
