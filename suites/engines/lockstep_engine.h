// SPDX-License-Identifier: Apache-2.0
// Lockstep's own engine as EngineUnderTest: in process, every rank hosted by one LocalWorld.
#pragma once
#include <functional>

#include "engine/world/worlds.h"
#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {

class LockstepEngine : public EngineUnderTest {
 public:
  // Puts a decorator around the World of each run.
  using Decorate = std::function<WorldPtr(WorldPtr)>;
  explicit LockstepEngine(Decorate decorate = nullptr) : decorate_(std::move(decorate)) {}

  std::string name() const override { return "lockstep"; }
  EngineResult run(const oracle::Case& c, bool want_timeline) override;

 private:
  Decorate decorate_;
};

// Runs the Program in this thread, on the ranks of the Case's mesh that `world` hosts.
// @post values, timeline and traffic, that of the Program without its inputs, tell of those ranks alone.
EngineResult run_in(const WorldPtr& world, const oracle::Case& c, bool want_timeline, Traffic& traffic);

}  // namespace lockstep::suites
