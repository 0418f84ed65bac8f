// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: the report, exports, published copies.
#pragma once
#include <string>
#include <string_view>

namespace lockstep::dashboard {

// Writes beside the path and takes its name only with commit(); without it, and after an error, the path is
// as it was. A device or a pipe, and "-" for standard output, are written to as they are.
// @throws StoreError that names the path and the remedy.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  void flush();
  [[noreturn]] void fail();

  std::string path_, temporary_;  // no temporary: written to as it is
  std::string buffer_;
  int descriptor_ = -1;
};

// The whole text at once.
void write_whole(const std::string& path, std::string_view text);

}  // namespace lockstep::dashboard
