// SPDX-License-Identifier: Apache-2.0
// Licence lines, Markdown pages and decision records.
#include <filesystem>
#include <set>

#include "ci/tidy/tidy.h"

namespace lockstep::tidy {
namespace {

constexpr std::string_view kSections[] = {"## Context", "## Decision", "## Alternatives rejected",
                                          "## Consequences", "## How we would notice it is wrong"};
constexpr size_t kRecordLines = 60;

void check_licence(const File& file, std::vector<Violation>& found) {
  if (!is_code(file) || file.path.ends_with("CMakeLists.txt") || file.path.starts_with(".ci/")) return;
  const auto lines = lines_of(file.text);
  const size_t at = file.text.starts_with("#!") ? 1 : 0;
  if (lines.size() <= at || lines[at].find("SPDX-License-Identifier: Apache-2.0") == std::string_view::npos)
    found.push_back({file.path, at + 1, "the file opens with its SPDX line, see any other file"});
  else if (file.path.ends_with(".h") && (lines.size() <= at + 1 || !lines[at + 1].starts_with("// ")))
    found.push_back({file.path, at + 2, "the header says in one to three sentences what it is"});
}

void check_link(const File& file, size_t number, std::string_view target, const std::set<std::string>& paths,
                std::vector<Violation>& found) {
  target = target.substr(0, target.find('#'));
  if (target.empty() || target.find("://") != std::string_view::npos) return;
  auto path = (std::filesystem::path(file.path).parent_path() / target).lexically_normal().generic_string();
  if (path.ends_with('/')) path.pop_back();
  if (!paths.contains(path)) found.push_back({file.path, number, "the link to " + path + " leads nowhere"});
}

void check_markdown(const File& file, const std::set<std::string>& paths, std::vector<Violation>& found) {
  size_t number = 0, titles = 0;
  bool fenced = false;
  for (const auto line : lines_of(file.text)) {
    ++number;
    if (line.starts_with("```")) fenced = !fenced;
    if (fenced) continue;
    if (line.starts_with("# ")) ++titles;
    for (size_t at = line.find("]("); at != std::string_view::npos; at = line.find("](", at + 1))
      if (const size_t close = line.find(')', at); close != std::string_view::npos)
        check_link(file, number, line.substr(at + 2, close - at - 2), paths, found);
  }
  if (titles != 1 || !file.text.starts_with("# "))
    found.push_back({file.path, 1, "a page has exactly one title, on its first line"});
}

void check_decision(const File& file, std::vector<Violation>& found) {
  for (const auto section : kSections)
    if (file.text.find("\n" + std::string(section)) == std::string::npos)
      found.push_back({file.path, 0, "a decision record has the section \"" + std::string(section) + "\""});
  if (lines_of(file.text).size() > kRecordLines)
    found.push_back(
        {file.path, 0, "a decision record fits one screen, " + std::to_string(kRecordLines) + " lines"});
}

}  // namespace

void check_documents(const std::vector<File>& files, std::vector<Violation>& found) {
  std::set<std::string> paths;
  for (const auto& file : files)
    for (std::filesystem::path path = file.path; !path.empty(); path = path.parent_path())
      paths.insert(path.generic_string());
  for (const auto& file : files) {
    check_licence(file, found);
    if (!file.path.ends_with(".md")) continue;
    check_markdown(file, paths, found);
    if (file.path.find("/decisions/") != std::string::npos) check_decision(file, found);
  }
}

}  // namespace lockstep::tidy
