// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/lines.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "engine/values/error.h"

namespace lockstep::curves {

Lines::Lines(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  LOCKSTEP_CHECK(file_, "[curves] ", path, ": ", std::strerror(errno), "; name a file that can be read");
  struct stat found {};
  LOCKSTEP_CHECK(fstat(fileno(file_.get()), &found) == 0 && !S_ISDIR(found.st_mode), "[curves] ", path,
                 " is a folder; name a file in it (only hash logs are read from folders)");
}

bool Lines::next(Line& line) {
  line.text.clear();
  line.number = number_ + 1;
  line.too_long = false;
  int c = 0;
  while ((c = getc_unlocked(file_.get())) != EOF && c != '\n') {
    line.too_long = line.text.size() == kLongestLine;
    if (!line.too_long) line.text.push_back(static_cast<char>(c));
  }
  LOCKSTEP_CHECK(std::ferror(file_.get()) == 0, "[curves] ", path_,
                 " could not be read to its end: ", std::strerror(errno));
  line.whole = c == '\n';
  if (!line.whole && line.text.empty()) return false;
  if (line.text.ends_with('\r')) line.text.pop_back();
  if (++number_ == 1 && line.text.starts_with("\xef\xbb\xbf")) line.text.erase(0, 3);
  return true;
}

std::string place(const std::string& path, const Line& line) {
  return concat("[curves] ", path, " line ", line.number);
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out = "'";
  for (size_t i = 0; i < text.size() && i < kMost; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f) {
      out.push_back(static_cast<char>(c));
      continue;
    }
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", c);
    out += hex;
  }
  return out + (text.size() > kMost ? "…'" : "'");
}

std::string without_colours(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 1 >= text.size() || text[i + 1] != '[') continue;
    for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
  }
  return out;
}

}  // namespace lockstep::curves
