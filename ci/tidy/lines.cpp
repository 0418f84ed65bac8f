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
  std::string text;  // with a '~' in it, so that this file does not find itself
  bool word;         // only as a word of its own
  const char* remedy;
};

constexpr const char* kPath = "a path of one machine; use a path from the root of the repository";
constexpr const char* kHost = "a registry's host; name the package and let the client find it";
constexpr const char* kNoWord = "not a word of this product";
constexpr const char* kRun = "not a word of this product; say run, process or scope";
constexpr const char* kDo = "do it, or say in a README what is missing";
constexpr const char* kTemporary = "a path of one machine; ask the standard library for a temporary folder";

std::vector<Banned> banned_texts() {
  std::vector<Banned> all{{"/ro~ot/", false, kPath},       {"/tmp~/bash", false, kTemporary},
                          {"/wo~rk/", false, kPath},       {"pypi~.org", false, kHost},
                          {"python~hosted", false, kHost}, {"deb.deb~ian.org", false, kHost},
                          {"pro~mpt", true, kNoWord},      {"pro~mpts", true, kNoWord},
                          {"ses~sion", true, kRun},        {"ses~sions", true, kRun},
                          {"FIX~ME", true, kDo},           {"TO~DO", true, kDo}};
  for (auto& banned : all) std::erase(banned.text, '~');
  return all;
}

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

}  // namespace

void check_lines(const std::vector<File>& files, std::vector<Violation>& found) {
  const auto all = banned_texts();
  for (const auto& file : files) {
    // Frozen data and third-party text keep their own form.
    const bool data = file.path.starts_with("golden/") && !file.path.ends_with(".md");
    if (data || file.path == "LICENSE") continue;
    size_t number = 0;
    for (const auto line : lines_of(file.text)) {
      ++number;
      if (is_code(file)) check_code_line(file, number, line, found);
      for (const auto& banned : all)
        if (contains(line, banned))
          found.push_back({file.path, number, "\"" + banned.text + "\": " + banned.remedy});
    }
  }
}

}  // namespace lockstep::tidy
