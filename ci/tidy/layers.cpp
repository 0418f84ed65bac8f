// SPDX-License-Identifier: Apache-2.0
// Who may include whom, room by room: every arrow is a line of the table, so that a new one is a decision.
// The oracle must not share code with what it judges; no two rooms include each other.
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

// Each may use only rooms above it, so the table itself has no cycle.
const Layer kLayers[] = {
    {"kernels", {}},
    {"engine/values", {}},
    {"engine/lane", {"engine/values"}},
    {"engine/lane/exact_main", {"engine/lane"}},
    {"engine/context", {"engine/values"}},
    {"engine/layout", {"engine/values"}},
    {"engine/world", {"engine/values", "engine/context"}},
    {"engine/move", {"engine/values", "engine/layout", "engine/world"}},
    {"engine/ops/rules", {"engine/values", "engine/lane", "engine/context", "engine/layout", "engine/move"}},
    {"engine/ops", {"engine/values", "engine/context", "engine/layout", "engine/world", "engine/ops/rules"}},
    {"engine/stream", {"engine/values", "engine/context"}},
    {"engine/random",
     {"kernels", "engine/values", "engine/context", "engine/layout", "engine/world", "engine/stream"}},
    {"engine/tensor",
     {"engine/values", "engine/lane", "engine/context", "engine/layout", "engine/world", "engine/move",
      "engine/ops/rules", "engine/ops", "engine/stream", "engine/random"}},
    {"engine/nn", {"engine/values", "engine/tensor"}},
    {"engine/optim", {"engine/values", "engine/tensor"}},
    {"oracle/ownership", {"engine/values"}},
    {"oracle/program", {"engine/values", "engine/lane", "engine/stream", "oracle/ownership"}},
    {"oracle/plain", {"engine/values", "engine/stream", "oracle/program"}},
    {"oracle/random", {"engine/values", "engine/stream", "oracle/ownership"}},
    {"oracle/judge",
     {"engine/values", "engine/lane", "oracle/ownership", "oracle/program", "oracle/plain", "oracle/random"}},
    {"generators/space", {"engine/values", "oracle/program"}},
    {"generators/program",
     {"engine/values", "engine/stream", "oracle/program", "oracle/random", "generators/space"}},
    {"generators/ops", {"engine/values", "generators/program"}},
    {"generators/random", {"engine/values", "oracle/program", "generators/space", "generators/program"}},
    {"generators/cases",
     {"engine/values", "oracle/program", "generators/space", "generators/program", "generators/ops",
      "generators/random"}},
    {"generators/shrink", {"engine/values", "oracle/program", "generators/space", "generators/program"}},
    {"dashboard/store", {}},
    {"dashboard/fill", {"dashboard/store"}},
    {"dashboard/statistics", {}},
    {"dashboard/report", {"dashboard/store", "dashboard/statistics"}},
    {"dashboard/pages", {"dashboard/store", "dashboard/report"}},
    {"dashboard/serve", {"dashboard/pages"}},
    {"suites/core",
     {"engine/values", "engine/layout", "engine/stream", "oracle/ownership", "oracle/program", "oracle/plain",
      "oracle/random", "oracle/judge", "dashboard/store"}},
    {"suites/engines",
     {"engine/values", "engine/lane", "engine/world", "engine/stream", "engine/tensor", "oracle/program",
      "oracle/plain", "dashboard/store", "suites/core"}},
    {"suites/faults",
     {"engine/values", "engine/layout", "engine/world", "engine/ops/rules", "engine/random",
      "oracle/ownership", "oracle/program", "oracle/random", "generators/program", "generators/random",
      "suites/core", "suites/engines"}},
    {"suites/golden",
     {"engine/values", "engine/stream", "engine/random", "engine/tensor", "engine/nn", "oracle/random"}},
    {"suites/train",
     {"engine/values", "engine/lane", "engine/world", "engine/stream", "engine/random", "engine/tensor",
      "engine/nn", "engine/optim", "oracle/ownership", "oracle/plain", "oracle/random", "oracle/judge",
      "dashboard/store", "suites/core"}},
    {"suites/laws",
     {"engine/values", "engine/layout", "engine/ops/rules", "engine/ops", "engine/stream", "engine/random",
      "oracle/ownership", "oracle/program", "oracle/plain", "oracle/random", "oracle/judge",
      "generators/space", "generators/cases", "generators/shrink", "suites/core", "suites/engines",
      "suites/faults", "suites/golden", "suites/train"}},
    {"suites",
     {"engine/values", "engine/lane", "engine/world", "engine/ops/rules", "engine/random", "engine/tensor",
      "engine/nn", "engine/optim", "oracle/ownership", "oracle/plain", "oracle/judge", "generators/cases",
      "suites/core", "suites/faults", "suites/laws"}},
    {"suites/harness",
     {"engine/values", "engine/lane", "oracle/ownership", "oracle/program", "oracle/plain", "oracle/random",
      "generators/random", "generators/cases", "generators/shrink", "dashboard/store", "suites/core",
      "suites/engines", "suites/faults", "suites/golden"}},
    {"suites/bench",
     {"engine/values", "engine/context", "engine/ops/rules", "engine/random", "engine/tensor",
      "dashboard/store", "suites/core", "suites/engines", "suites/train", "suites/harness"}},
    {"suites/engines/testing/bad", {}},
    {"suites/engines/testing/good", {"engine/lane", "suites/engines"}},
    {"ci/cmake", {}},
    {"ci/curves", {"engine/values", "dashboard/store", "dashboard/report"}},
    {"ci/example", {}},
    {"ci/gate", {"engine/values", "dashboard/store"}},
    {"ci/output", {"engine/values", "dashboard/store"}},
    {"ci/program",
     {"engine/values",   "engine/lane",      "engine/layout",   "engine/ops/rules", "engine/ops",
      "engine/stream",   "engine/tensor",    "oracle/program",  "oracle/plain",     "oracle/random",
      "dashboard/store", "dashboard/report", "dashboard/pages", "dashboard/serve",  "suites/core",
      "suites/engines",  "suites/faults",    "suites/golden",   "suites/train",     "suites/laws",
      "suites/harness",  "suites/bench",     "ci/curves",       "ci/gate",          "ci/output"}},
    {"ci/record", {"engine/values", "engine/random", "suites/golden"}},
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

// The top folder of a room: "engine" of "engine/ops/rules".
std::string_view top(std::string_view folder) {
  return folder.substr(0, folder.find('/'));
}

bool lists(const Layer& layer, const Layer& to) {
  const auto& allowed = layer.may_include;
  return std::find(allowed.begin(), allowed.end(), to.folder) != allowed.end();
}

// Tests and what they stand on may look at all of their top folder, at all that it may, and at these.
struct ForTests {
  std::string_view top, may_include;
};
constexpr ForTests kForTests[] = {{"generators", "oracle"}, {"ci", "engine"}};

bool is_for_tests(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return name.ends_with("_test.cpp") || name.ends_with("_bench.cpp") || name.starts_with("testing");
}

bool may_include(const File& file, const Layer& from, const Layer& to) {
  if (&from == &to || lists(from, to)) return true;
  if (!is_for_tests(file.path)) return false;
  for (const auto& [who, what] : kForTests)
    if (who == top(from.folder) && what == top(to.folder)) return true;
  const auto same_top = [&](const Layer& layer) {
    return top(layer.folder) == top(from.folder) && (&layer == &to || lists(layer, to));
  };
  return std::any_of(std::begin(kLayers), std::end(kLayers), same_top);
}

std::string judge(const File& file, const Layer& from, std::string_view included) {
  const Layer* to = layer_of(included);
  if (to == nullptr) return "include \"" + std::string(included) + "\" by its path from the root";
  if (may_include(file, from, *to)) return "";
  return std::string(from.folder) + " may include " + joined(from.may_include) + ", not " +
         std::string(to->folder);
}

using Includes = std::map<std::string, std::vector<std::string>>;

// Depth first; a header that is met again on the way down closes a cycle.
void find_cycle(const Includes& includes, const std::string& path, std::vector<std::string>& way,
                std::set<std::string>& done, std::vector<Violation>& found) {
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

void check_layers(const std::vector<File>& files, std::vector<Violation>& found) {
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
      if (auto message = judge(file, *layer, included); !message.empty())
        found.push_back({file.path, number, message});
    }
  }
  std::set<std::string> done;
  std::vector<std::string> way;
  for (const auto& [path, unused] : includes) find_cycle(includes, path, way, done, found);
}

}  // namespace lockstep::tidy
