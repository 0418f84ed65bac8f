// SPDX-License-Identifier: Apache-2.0
// Who may include whom. The oracle must not share code with what it judges; no folder pair includes each
// other.
#include <algorithm>
#include <map>
#include <set>

#include "ci/tidy/tidy.h"

namespace lockstep::tidy {
namespace {

struct Layer {
  std::string_view folder;
  std::vector<std::string_view> may_include;  // besides itself
};

// Each may use only layers above it, so the table itself has no cycle.
const Layer kLayers[] = {
    {"kernels", {}},
    {"engine/values", {}},
    {"engine/lane", {"engine/values"}},
    {"engine/world", {"engine/values"}},
    {"engine", {"engine/values", "engine/lane", "engine/world", "kernels"}},
    {"oracle", {"engine/values", "engine/lane"}},
    {"generators", {"oracle", "engine/values", "engine/lane"}},
    {"dashboard/statistics", {}},
    {"dashboard", {"dashboard/statistics"}},
    {"dashboard/serve", {"dashboard"}},
    {"ci/curves", {"engine/values", "dashboard"}},
    {"suites", {"kernels", "engine/values", "engine/lane", "engine", "oracle", "generators", "dashboard"}},
    {"ci/gate", {"engine/values", "dashboard"}},
    {"ci/output", {"engine/values", "dashboard"}},
    {"ci/program",
     {"kernels", "engine/values", "engine/lane", "engine", "oracle", "generators", "dashboard",
      "dashboard/serve", "suites", "ci/curves", "ci/gate", "ci/output"}},
    {"ci/example", {"engine/values", "engine/lane", "engine", "oracle"}},
    {"ci/cmake", {}},
    {"ci/record", {"engine/values", "engine/lane", "engine", "oracle", "suites"}},
    {"ci/tidy", {}},
};

// The layer with the longest folder that contains the path; nullptr: none.
const Layer* layer_of(std::string_view path) {
  const Layer* best = nullptr;
  for (const auto& layer : kLayers) {
    const bool inside = path.starts_with(layer.folder) && path.substr(layer.folder.size()).starts_with("/");
    if (inside && (best == nullptr || layer.folder.size() > best->folder.size())) best = &layer;
  }
  return best;
}

// The path of an #include "..." line; empty: not such a line.
std::string_view quoted_include(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  if (!line.starts_with(kStart)) return {};
  line.remove_prefix(kStart.size());
  return line.substr(0, line.find('"'));
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text.empty() ? "nothing of ours" : text;
}

std::string judge(const Layer& from, std::string_view included) {
  const Layer* to = layer_of(included);
  if (to == nullptr) return "include \"" + std::string(included) + "\" by its path from the root";
  const auto& allowed = from.may_include;
  if (to == &from || std::find(allowed.begin(), allowed.end(), to->folder) != allowed.end()) return "";
  return std::string(from.folder) + " may include " + joined(allowed) + ", not " + std::string(to->folder);
}

using Includes = std::map<std::string, std::vector<std::string>>;

// Depth first; a header that is met again on the way down closes a cycle.
void find_cycle(const Includes& includes, const std::string& path, std::vector<std::string>& way,
                std::set<std::string>& done, std::vector<Finding>& found) {
  if (const auto seen = std::find(way.begin(), way.end(), path); seen != way.end()) {
    std::string text = "headers include each other: ";
    for (auto it = seen; it != way.end(); ++it) text += *it + " -> ";
    found.push_back({path, 0, text + path});
    return;
  }
  const auto next = includes.find(path);
  if (next == includes.end() || !done.insert(path).second) return;
  way.push_back(path);
  for (const auto& included : next->second) find_cycle(includes, included, way, done, found);
  way.pop_back();
}

}  // namespace

void check_layers(const std::vector<File>& files, std::vector<Finding>& found) {
  Includes includes;
  for (const auto& file : files) {
    const Layer* layer = layer_of(file.path);
    if (!is_cpp(file.path)) continue;
    if (layer == nullptr) {
      found.push_back({file.path, 0, "this folder has no line in the table of ci/tidy/layers.cpp"});
      continue;
    }
    size_t number = 0;
    for (const auto line : lines_of(file.text)) {
      ++number;
      const auto included = quoted_include(line);
      if (included.empty()) continue;
      includes[file.path].emplace_back(included);
      if (auto message = judge(*layer, included); !message.empty())
        found.push_back({file.path, number, message});
    }
  }
  std::set<std::string> done;
  std::vector<std::string> way;
  for (const auto& [path, unused] : includes) find_cycle(includes, path, way, done, found);
}

}  // namespace lockstep::tidy
