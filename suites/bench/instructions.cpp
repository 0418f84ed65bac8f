// SPDX-License-Identifier: Apache-2.0
// Instructions, counted by callgrind, which simulates the processor: the same on a busy machine and on any
// other of its kind.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "suites/bench/body.h"
#include "suites/bench/folder.h"
#include "suites/bench/serve.h"
#include "suites/bench/turns.h"

namespace lockstep::suites {
namespace {

// The path of a program; empty: there is none.
std::string find_program(const std::string& program) {
  const auto* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return folder + "/" + program;
  return "";
}

// The processor is simulated, and so are addresses: what lies on the first page of the stack, environment and
// arguments, must be alike for every binary and every caller, or copies are aligned otherwise.
std::vector<std::string> plain_environment() {
  std::vector<std::string> whole{"env", "-i"};
  for (const auto* name : {"MKL_CBWR", "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS", "LD_LIBRARY_PATH"})
    if (const auto* value = std::getenv(name)) whole.push_back(concat(name, "=", value));
  return whole;
}

// With every return from the function the tool writes one file more, numbered from 1.
std::vector<std::string> watched(const std::vector<std::string>& command, const Folder& folder) {
  const auto program = folder.path / "program";
  // A link to the process itself would be one to the tool.
  const std::filesystem::path named = command.front();
  std::filesystem::create_symlink(
      named == "/proc/self/exe" ? std::filesystem::read_symlink(named) : std::filesystem::absolute(named),
      program);
  auto whole = plain_environment();
  whole.insert(whole.end(), {find_program("valgrind"), "--tool=callgrind", "--quiet", "--collect-atstart=no",
                             concat("--toggle-collect=", kInstructionsFunction),
                             concat("--dump-after=", kInstructionsFunction),
                             "--callgrind-out-file=" + (folder.path / "counted").string(), program.string()});
  whole.insert(whole.end(), command.begin() + 1, command.end());
  return whole;
}

// The number after "summary:" or "totals:".
int64_t total(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("summary:") || line.starts_with("totals:"))
      return std::atoll(line.substr(line.find(':') + 1).c_str());
  throw Broken(concat("[bench] ", path, " does not say how many instructions ran"));
}

}  // namespace

std::string why_no_instructions() {
  return !find_program("valgrind").empty() ? "" : "valgrind is not installed (apt-get install valgrind)";
}

std::vector<Sample> count_instructions(const std::vector<NamedArm>& arms,
                                       const std::vector<dashboard::Series>& series,
                                       const TurnOptions& options) {
  std::vector<Sample> samples;
  for (const auto& arm : arms) {
    const Folder folder;
    Arm process(watched(arm.command, folder), options.patience);
    int file = 0;
    for (const auto& s : process.list()) {
      const auto wanted =
          std::find_if(series.begin(), series.end(), [&](auto& o) { return o.name == s.name; });
      if (s.counted || wanted == series.end()) continue;
      const auto calls = process.instructions(s.name);
      if (calls == 0) continue;
      const auto counted = instructions_of(s);
      samples.push_back({counted.name, arm.name, counted.unit,
                         static_cast<double>(total(concat(folder.path.string(), "/counted.", ++file))) /
                             static_cast<double>(calls)});
    }
    process.quit();
  }
  return samples;
}

}  // namespace lockstep::suites
