// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/environment.h"

#include <ATen/Version.h>
#include <sched.h>
#include <torch/version.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "suites/core/outcome.h"

namespace lockstep::suites {
namespace {

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

// The program's own bytes: two runs with the same hash ran the same code.
std::string binary_hash() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return hex(stable_hash(bytes));
}

std::string fresh_id(int64_t ms) {
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &utc);
  return std::string(text) + "-" +
         hex(stable_hash(std::to_string(ms) + "/" + std::to_string(getpid()))).substr(0, 6);
}

}  // namespace

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void describe_environment(dashboard::Run& run) {
  run.started_ms = dashboard::now_ms();
  run.id = fresh_id(run.started_ms);
  run.build_hash = binary_hash();
  run.commit = commit();
  run.cpu = cpu_name();
  run.cores = processors();
  run.compiler = "g++ " __VERSION__;
  run.libtorch = TORCH_VERSION;
  run.version = LOCKSTEP_VERSION;
}

dashboard::Run run_without_plan(std::string command, std::string numerics, uint64_t seed) {
  dashboard::Run run;
  run.command = std::move(command);
  run.numerics = std::move(numerics);
  run.seed = seed;
  run.plan = R"({"suites":[],"labels":[]})";
  describe_environment(run);
  return run;
}

}  // namespace lockstep::suites
