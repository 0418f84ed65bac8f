// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/make_engine.h"

#include <algorithm>
#include <filesystem>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "suites/engines/process_engine.h"
#include "suites/engines/ranks_engine.h"
#include "suites/engines/thread_engine.h"

namespace lockstep::suites {
namespace {

// Seconds in which processes come up and meet, also where one answer may take less.
constexpr double kLeastStart = 60;

// This program itself, which serves its own engine, or hosts some ranks of it.
std::vector<std::string> own_command(const char* serves) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "engine", serves, "--numerics",
          entered_lane() == Lane::kExact ? "exact" : "fast"};
}

std::vector<std::string> ranks_command(const std::string& chaos) {
  auto words = own_command("ranks");
  if (!chaos.empty()) words.insert(words.end(), {"--chaos", chaos});
  return words;
}

constexpr WorldRow kWorlds[] = {
    {"local", "one thread hosts all ranks",
     [](const EngineOptions& o) -> EnginePtr {
       if (o.device == c10::kCUDA)
         return std::make_unique<DeviceEngine>(o.decorate, o.spoil, o.remade, o.forms);
       return std::make_unique<LockstepEngine>(o.decorate, o.spoil, o.remade, o.forms);
     }},
    {"thread", "one rank a thread",
     [](const EngineOptions& o) -> EnginePtr {
       return std::make_unique<ThreadEngine>(patience_of(o.seconds / 2));
     }},
    {"gloo", "ranks in processes, over libtorch's Gloo",
     [](const EngineOptions& o) -> EnginePtr {
       const auto start = [o] {
         const auto processes = o.ranks == 0 ? kDefaultProcesses : o.ranks;
         return start_crew(ranks_command(o.chaos), processes, o.seconds, std::max(o.seconds, kLeastStart));
       };
       const auto join = [o] { return join_crew(o.seconds); };
       return joins(o.world, o.ranks) ? std::make_unique<RanksEngine>(join)
                                      : std::make_unique<RanksEngine>(start);
     }},
};

EnginePtr own_engine(const EngineOptions& options) {
  for (const auto& world : kWorlds)
    if (options.world == world.name) return world.make(options);
  throw Error(
      concat("[engine] no world is called '", options.world, "'; there are ", names_of(worlds(), "and")));
}

constexpr EngineRow kEngines[] = {
    {"lockstep", "Lockstep's own engine, in this process", own_engine},
    {"lockstep-process", "the same in a process of its own, over the wire",
     [](const EngineOptions& o) -> EnginePtr {
       return std::make_unique<ProcessEngine>(own_command("serve"), o.seconds);
     }},
};

}  // namespace

std::span<const EngineRow> engines() {
  return kEngines;
}

std::span<const WorldRow> worlds() {
  return kWorlds;
}

bool joins(const std::string& world, int64_t ranks) {
  return world == "gloo" && ranks == 0 && launched();
}

EngineProfile profile_of(const std::string& name, const EngineOptions& options) {
  return joins(options.world, options.ranks) ? world_profile() : make_engine(name, options)->profile();
}

EnginePtr make_engine(const std::string& name, const EngineOptions& options) {
  LOCKSTEP_CHECK(name == kEngines[0].name || options.world == kWorlds[0].name, "[engine] ", name,
                 " does not run in the ", options.world, " world; leave out --world");
  for (const auto& engine : kEngines)
    if (name == engine.name) return engine.make(options);
  LOCKSTEP_CHECK(name.find_first_of(" /") != std::string::npos, "[engine] no engine is called '", name,
                 "'; there are ", names_of(engines(), "and"),
                 ", or give the command of one that speaks the wire (suites/engines/WIRE.md)");
  return std::make_unique<ProcessEngine>(std::vector<std::string>{"/bin/sh", "-c", "exec " + name},
                                         options.seconds);
}

}  // namespace lockstep::suites
