// SPDX-License-Identifier: Apache-2.0
// What a single line may look like: width, macros, words that must not be in the product. The rest is
// clang-format's (ci/format --check).
#include <algorithm>
#include <cctype>

#include "ci/tidy/tidy.h"

namespace lockstep::tidy {
namespace {

constexpr size_t kWidth = 110;        // of C++, as .clang-format lays it out
constexpr size_t kScriptWidth = 120;  // of scripts and CMake files

struct Banned {
  std::string_view text;
  bool word;  // only as a word of its own
  std::string_view remedy;
};

// The literals are cut in two so that this file does not find itself.
constexpr Banned kBanned[] = {
    {"/ro"
     "ot/",
     false, "a path of one machine; use a path from the root of the repository"},
    {"/tmp"
     "/bash",
     false, "a path of one machine; ask the standard library for a temporary folder"},
    {"/wo"
     "rk/",
     false, "a path of one machine; use a path from the root of the repository"},
    {"pypi"
     ".org",
     false, "a registry's host; name the package and let the client find it"},
    {"python"
     "hosted",
     false, "a registry's host; name the package and let the client find it"},
    {"deb.deb"
     "ian.org",
     false, "a registry's host; name the package and let the client find it"},
    {"pro"
     "mpt",
     true, "not a word of this product"},
    {"pro"
     "mpts",
     true, "not a word of this product"},
    {"ses"
     "sion",
     true, "not a word of this product; say run, process or scope"},
    {"ses"
     "sions",
     true, "not a word of this product; say run, process or scope"},
    {"FIX"
     "ME",
     true, "do it, or say in a README what is missing"},
    {"TO"
     "DO",
     true, "do it, or say in a README what is missing"},
};

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool contains(std::string_view line, const Banned& banned) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (auto at = line.begin();; ++at) {
    at = std::search(at, line.end(), banned.text.begin(), banned.text.end(), same);
    if (at == line.end()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(banned.text.size());
    const bool alone =
        (at == line.begin() || !word_character(at[-1])) && (end == line.end() || !word_character(*end));
    if (!banned.word || alone) return true;
  }
}

// Columns, counting each UTF-8 character as one.
size_t width(std::string_view line) {
  return static_cast<size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void check_code_line(const File& file, size_t number, std::string_view line, std::vector<Violation>& found) {
  const size_t limit = is_cpp(file.path) ? kWidth : kScriptWidth;
  if (width(line) > limit && line.find("://") == std::string_view::npos)
    found.push_back({file.path, number, "wider than " + std::to_string(limit) + " columns"});
  const bool ours =
      line.starts_with("#define LOCKSTEP_CHECK(") || line.starts_with("#define LOCKSTEP_HOST_DEVICE");
  const bool macro = line.starts_with("#define ") && !ours;
  if (macro && is_cpp(file.path))
    found.push_back(
        {file.path, number,
         "a macro beside LOCKSTEP_CHECK and LOCKSTEP_HOST_DEVICE; write a function or a constant"});
}

// Frozen data and third-party text keep their own form.
bool is_data(const File& file) {
  return file.path.starts_with("golden/") && !file.path.ends_with(".md");
}

}  // namespace

void check_lines(const std::vector<File>& files, std::vector<Violation>& found) {
  for (const auto& file : files) {
    if (is_data(file) || file.path == "LICENSE") continue;
    size_t number = 0;
    for (const auto line : lines_of(file.text)) {
      ++number;
      if (is_code(file)) check_code_line(file, number, line, found);
      for (const auto& banned : kBanned)
        if (contains(line, banned))
          found.push_back(
              {file.path, number, "\"" + std::string(banned.text) + "\": " + std::string(banned.remedy)});
    }
  }
}

}  // namespace lockstep::tidy
