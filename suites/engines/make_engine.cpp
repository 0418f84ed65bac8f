// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/make_engine.h"

#include <array>
#include <filesystem>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "suites/engines/process_engine.h"
#include "suites/engines/thread_engine.h"

namespace lockstep::suites {
namespace {

constexpr std::array<EngineRow, 2> kEngines = {{
    {"lockstep", "Lockstep's own engine, in this process"},
    {"lockstep-process", "the same in a process of its own, over the wire"},
}};

// This program itself, which serves its own engine.
std::vector<std::string> own_command() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "engine", "serve", "--numerics",
          entered_lane() == Lane::kExact ? "exact" : "fast"};
}

}  // namespace

std::span<const EngineRow> engines() {
  return kEngines;
}

EnginePtr make_engine(const std::string& name, const EngineOptions& options) {
  if (name == "lockstep" && options.world == "thread") return std::make_unique<ThreadEngine>();
  LOCKSTEP_CHECK(options.world == "local", "[engine] ", name, " does not run in the ", options.world,
                 " world; leave out --world");
  if (name == "lockstep") return std::make_unique<LockstepEngine>(options.decorate);
  if (name == "lockstep-process") return std::make_unique<ProcessEngine>(own_command(), options.seconds);
  LOCKSTEP_CHECK(
      name.find_first_of(" /") != std::string::npos, "[engine] no engine is called '", name,
      "'; there are lockstep and lockstep-process, or give the command of one that speaks the wire "
      "(suites/engines/WIRE.md)");
  return std::make_unique<ProcessEngine>(std::vector<std::string>{"/bin/sh", "-c", "exec " + name},
                                         options.seconds);
}

}  // namespace lockstep::suites
