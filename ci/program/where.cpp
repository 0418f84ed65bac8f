// SPDX-License-Identifier: Apache-2.0
// What several commands ask about lanes, devices and Worlds, and when the answers fit.
#include <algorithm>

#include "ci/program/commands.h"
#include "engine/values/error.h"
#include "suites/core/suite.h"
#include "suites/engines/crew.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/make_engine.h"

namespace lockstep::program {

Lane parse_lane(const std::string& text, const std::string& device) {
  if (text.empty()) return device == "cuda" ? Lane::kFast : Lane::kExact;
  if (text == "exact") return Lane::kExact;
  if (text == "fast") return Lane::kFast;
  if (text == "invariant")
    throw NotBuilt(concat("[run] --numerics invariant", kNotAvailable, "; use exact or fast"));
  throw Error(concat("[run] --numerics ", text, ": write exact or fast"));
}

void check_device(const std::string& command, const std::string& device, Lane lane, const std::string& world,
                  const std::string& engine, const std::string& fault) {
  LOCKSTEP_CHECK(device == "cpu" || device == "cuda", "[", command, "] --device ", device,
                 ": write cpu or cuda");
  if (device == "cpu") return;
  LOCKSTEP_CHECK(lane == Lane::kFast, "[", command,
                 "] the exact lane is of the CPU's kernels; on a CUDA device use --numerics fast");
  LOCKSTEP_CHECK(
      world == "local" && engine == "lockstep" && fault.empty(), "[", command,
      "] --device cuda is of Lockstep's own engine in the local world; leave out --world, --engine "
      "and --fault");
}

std::optional<int> take_part(const std::string& world, int64_t ranks, double seconds) {
  const bool others = suites::joins(world, ranks) && suites::follows();
  return others ? std::optional(suites::follow(seconds)) : std::nullopt;
}

void add_hang(CLI::App& app, int64_t& seconds) {
  app.add_option("--hang", seconds,
                 "A rank for which others have waited so many seconds is lost (default 600)")
      ->check(CLI::Range(1, 86400));
}

void add_world(CLI::App& app, std::string& world, int64_t& ranks) {
  std::string which;
  for (const auto& row : suites::worlds())
    which += concat(row.name, which.empty() ? " (default): " : ": ", row.what, "; ");
  if (suites::launched()) world = "gloo";
  app.add_option(
      "--world", world,
      which + "nccl is not built yet. Default in a process that torchrun, mpirun or srun started: gloo");
  app.add_option("--ranks", ranks,
                 concat("Processes of the world gloo (default: those of the launcher, or ",
                        suites::kDefaultProcesses, "); each hosts a block of the ranks of a mesh"))
      ->check(CLI::Range(1, 64));
}

namespace {
// The suites whose cases are Programs that the engine under test runs, and that ask nothing of how it sums.
void check_judged(const std::string& command, const std::vector<std::string>& suites) {
  const std::vector<std::string> judged{"layout",  "redistribute", "ops",   "gradient",    "random",
                                        "program", "edges",        "cache", "metamorphic", "overlap"};
  LOCKSTEP_CHECK(!suites.empty(), "[", command,
                 "] --reduce library: name suites of layout, redistribute, ops, gradient, random, program, "
                 "edges, cache, metamorphic and overlap");
  for (const auto& suite : suites)
    LOCKSTEP_CHECK(std::find(judged.begin(), judged.end(), suite) != judged.end(), "[", command,
                   "] the suite ", suite, " runs in rank order only; leave out --reduce");
}

// What a suite that is named needs, the World has. Of a run that names none the others are left out.
void check_suites(const std::string& command, const std::string& world,
                  const std::vector<std::string>& suites) {
  for (const auto& name : suites) {
    const auto needs = suites::find_suite(name).needs;
    LOCKSTEP_CHECK(suites::world_profile().has(needs), "[", command, "] the suite ", name,
                   " runs in the local world only: it plants faults in this process; leave out --world ",
                   world);
  }
}
}  // namespace

void check_world(const std::string& command, const std::string& world, int64_t ranks) {
  const auto worlds = suites::worlds();
  if (world == "nccl") throw NotBuilt(concat("[", command, "] --world nccl", kNotAvailable, "; use gloo"));
  LOCKSTEP_CHECK(
      std::any_of(worlds.begin(), worlds.end(), [&](const auto& row) { return world == row.name; }), "[",
      command, "] --world ", world, ": write ", names_of(worlds, "or"));
  LOCKSTEP_CHECK(ranks == 0 || world == "gloo", "[", command, "] --ranks ", ranks,
                 " are processes of --world gloo; add it");
}

void check_world(const std::string& command, const std::string& world, int64_t ranks,
                 const std::string& engine, const std::string& fault,
                 const std::vector<std::string>& suites) {
  check_world(command, world, ranks);
  if (world == "local") return;
  LOCKSTEP_CHECK(engine == "lockstep", "[", command, "] --world ", world,
                 " is of Lockstep's own engine, not of ", engine, "; leave out --world or --engine");
  LOCKSTEP_CHECK(fault.empty(), "[", command, "] --fault ", fault,
                 " is planted in the local world; leave out --world");
  check_suites(command, world, suites);
}

bool parse_reduce(const std::string& command, const std::string& text) {
  LOCKSTEP_CHECK(text == "rank-order" || text == "library", "[", command, "] --reduce ", text,
                 ": write rank-order or library");
  return text == "library";
}

void check_library(const std::string& command, const std::string& world, const std::string& engine,
                   const std::string& device, const std::vector<std::string>& suites) {
  LOCKSTEP_CHECK(device != "cuda", "[", command,
                 "] --reduce library is Gloo's, in the host's memory; leave out --device");
  LOCKSTEP_CHECK(world == "local" && engine == "lockstep", "[", command,
                 "] --reduce library is of Lockstep's own engine in the local world; leave out --world and "
                 "--engine");
  check_judged(command, suites);
}

}  // namespace lockstep::program
