// SPDX-License-Identifier: Apache-2.0
#include "ci/tidy/tidy.h"

#include <algorithm>
#include <tuple>

namespace lockstep::tidy {

std::vector<Violation> check(const std::vector<File>& files) {
  std::vector<Violation> found;
  for (const auto run : {check_layers, check_lines, check_documents, check_shape}) run(files, found);
  std::sort(found.begin(), found.end(), [](const Violation& a, const Violation& b) {
    return std::tie(a.path, a.line, a.message) < std::tie(b.path, b.line, b.message);
  });
  return found;
}

std::string to_string(const std::vector<Violation>& findings) {
  std::string text;
  for (const auto& f : findings) {
    text += f.path;
    if (f.line > 0) text += ":" + std::to_string(f.line);
    text += ": " + f.message + "\n";
  }
  return text;
}

}  // namespace lockstep::tidy
