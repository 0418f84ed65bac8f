// SPDX-License-Identifier: Apache-2.0
// The shape of the repository: its top level, a README for each folder, lengths of files and functions.
#include <algorithm>
#include <set>

#include "ci/tidy/tidy.h"

namespace lockstep::tidy {
namespace {

constexpr size_t kFileLines = 500;
constexpr size_t kFunctionLines = 70;

const std::set<std::string_view> kFolders = {"kernels", "engine", "oracle",    "generators",
                                             "suites",  "golden", "dashboard", "ci"};
const std::set<std::string_view> kTopFiles = {"CMakeLists.txt", "README.md", "LICENSE", "CMakePresets.json",
                                              "CHANGELOG.md"};

void check_top_level(const std::vector<File>& files, std::vector<Violation>& found) {
  std::set<std::string_view> missing = kTopFiles;
  std::set<std::string> unread;
  for (const auto folder : kFolders) unread.insert(std::string(folder) + "/README.md");
  for (const auto& file : files) {
    const auto first = std::string_view(file.path).substr(0, file.path.find('/'));
    const bool known = (first == file.path ? kTopFiles : kFolders).contains(first) || first.starts_with('.');
    if (!known)
      found.push_back({file.path, 0, "the top level holds nothing else; see the folder table in README.md"});
    missing.erase(file.path);
    unread.erase(file.path);
  }
  for (const auto name : missing) found.push_back({std::string(name), 0, "missing"});
  for (const auto& readme : unread)
    found.push_back({readme, 0, "missing: each folder says what it is and in which order to read it"});
}

// "int f() {", "Foo::Foo() {", the last line of a long parameter list: not a type, a namespace or a table.
bool opens_function(std::string_view line) {
  return line.ends_with('{') && !line.ends_with("= {") && line.find(')') != std::string_view::npos;
}

size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

void check_lengths(const File& file, std::vector<Violation>& found) {
  const size_t length = lines_of(file.text).size();
  if (length > kFileLines)
    found.push_back(
        {file.path, 0, std::to_string(length) + " lines; the limit is " + std::to_string(kFileLines)});
  if (!is_cpp(file.path)) return;
  for (const auto& f : functions_of(file))
    if (f.length > kFunctionLines)
      found.push_back({file.path, f.line,
                       "a function of " + std::to_string(f.length) + " lines; the limit is " +
                           std::to_string(kFunctionLines)});
}

}  // namespace

// Functions stand at the left margin, members two columns in; what is inside a body is passed over.
std::vector<FunctionLength> functions_of(const File& file) {
  std::vector<FunctionLength> functions;
  size_t number = 0, head = 0, indent = 0;
  bool inside = false;
  for (const auto line : lines_of(file.text)) {
    ++number;
    if (!inside && !line.empty() && indent_of(line) <= 2) {
      head = number;
      indent = indent_of(line);
    }
    if (!inside) {
      inside = opens_function(line);
    } else if (line.substr(0, indent + 1) == std::string(indent, ' ') + "}") {
      functions.push_back({head, number - head + 1});
      inside = false;
    }
  }
  return functions;
}

void check_shape(const std::vector<File>& files, std::vector<Violation>& found) {
  check_top_level(files, found);
  for (const auto& file : files)
    if (is_code(file)) check_lengths(file, found);
}

}  // namespace lockstep::tidy
