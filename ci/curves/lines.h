// SPDX-License-Identifier: Apache-2.0
// A file as lines, with bounded memory.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::curves {

inline constexpr size_t kLongestLine = size_t{16} << 20;

struct Line {
  std::string text{};     // without its end ("\n" or "\r\n")
  int64_t number = 0;     // from 1
  bool whole = true;      // false: the file ends before the line does
  bool too_long = false;  // longer than kLongestLine: text holds its beginning
};

// Throws Error that names the file and the reason if it cannot be opened or read, or is a folder.
class Lines {
 public:
  explicit Lines(const std::string& path);
  bool next(Line& line);  // false: no more. A byte order mark at the beginning of the file is left out.
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t number_ = 0;
};

// "FILE line 12": for messages.
std::string place(const std::string& path, const Line& line);
// Text of a file for a message: control characters and what is not ASCII as \xNN, at most 60 bytes.
std::string in_quotes(std::string_view text);
// Without ANSI escape sequences (colours, cursor movements).
std::string without_colours(std::string_view text);

}  // namespace lockstep::curves
