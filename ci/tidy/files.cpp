// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "ci/tidy/tidy.h"

namespace lockstep::tidy {
namespace {

namespace fs = std::filesystem;

bool ends_with_any(std::string_view path, std::initializer_list<std::string_view> endings) {
  for (const auto ending : endings)
    if (path.ends_with(ending)) return true;
  return false;
}

std::vector<std::string> tracked_by_git(const fs::path& root) {
  const std::string command = "git -C '" + root.string() + "' ls-files -z 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  std::vector<std::string> paths;
  std::istringstream in(text);
  for (std::string path; std::getline(in, path, '\0');)
    if (fs::exists(root / path)) paths.push_back(path);
  return paths;
}

std::vector<std::string> all_files(const fs::path& root) {
  std::vector<std::string> paths;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const auto path = fs::relative(it->path(), root).generic_string();
    if (it->is_directory() && (path == ".git" || path.starts_with("build"))) it.disable_recursion_pending();
    if (it->is_regular_file()) paths.push_back(path);
  }
  return paths;
}

}  // namespace

std::vector<File> read_repository(const fs::path& root) {
  auto paths = tracked_by_git(root);
  if (paths.empty()) paths = all_files(root);
  std::vector<File> files;
  for (auto& path : paths) {
    std::ifstream in(root / path, std::ios::binary);
    files.push_back({std::move(path), {std::istreambuf_iterator<char>(in), {}}});
  }
  return files;
}

bool is_cpp(std::string_view path) {
  return ends_with_any(path, {".h", ".cpp", ".cc", ".c", ".cu"});
}

bool is_code(const File& file) {
  return is_cpp(file.path) || file.text.starts_with("#!") ||
         ends_with_any(file.path, {".cmake", ".cmake.in", ".sql", ".js", ".css", ".html", "CMakeLists.txt"});
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace lockstep::tidy
