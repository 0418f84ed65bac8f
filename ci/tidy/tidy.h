// SPDX-License-Identifier: Apache-2.0
// Tidy: what this repository promises about its own text, checked as a test. Reads files, includes none of
// ours. Read in this order: tidy.cpp (the list of checks), layers.cpp, lines.cpp, documents.cpp, shape.cpp.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tidy {

struct File {
  std::string path;  // from the root of the repository, with '/'
  std::string text;
};

struct Violation {
  std::string path;
  size_t line = 0;      // 1-based; 0: the file as a whole
  std::string message;  // says what to do instead
};

// What git tracks; without git, everything but hidden and build folders.
std::vector<File> read_repository(const std::filesystem::path& root);

// All checks on all files, in order of path and line.
std::vector<Violation> check(const std::vector<File>& files);
std::string to_string(const std::vector<Violation>& findings);  // "path:line: message\n" each

// One family of checks each; `check` runs them all.
void check_layers(const std::vector<File>& files, std::vector<Violation>& found);
void check_lines(const std::vector<File>& files, std::vector<Violation>& found);
void check_documents(const std::vector<File>& files, std::vector<Violation>& found);
void check_shape(const std::vector<File>& files, std::vector<Violation>& found);

// Shared by the checks.
bool is_cpp(std::string_view path);  // C, C++ or CUDA source
bool is_code(const File& file);      // that, CMake, SQL, JavaScript, CSS or a script
std::vector<std::string_view> lines_of(std::string_view text);
// The lengths in lines of the functions of a C++ file laid out by clang-format, with the line each starts at.
struct FunctionLength {
  size_t line = 0;
  size_t length = 0;
};
std::vector<FunctionLength> functions_of(const File& file);

}  // namespace lockstep::tidy
