// SPDX-License-Identifier: Apache-2.0
// Lockstep's own engine as EngineUnderTest: in process, every rank hosted by one LocalWorld.
#pragma once
#include <functional>

#include "engine/world/worlds.h"
#include "oracle/program/values.h"
#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/forms.h"
#include "suites/engines/mapped.h"
#include "suites/engines/overlapped.h"

namespace lockstep::suites {

// Of Lockstep's own engine, on whatever World.
const EngineProfile& own_profile();
// Its own profile where Cases are on a CUDA device: faults are planted on the CPU.
const EngineProfile& device_profile();
// Its own profile where ranks are in other threads or processes: what must be in this one it lacks.
const EngineProfile& world_profile();

class LockstepEngine : public EngineUnderTest {
 public:
  // Puts a decorator around the World of each run.
  using Decorate = std::function<WorldPtr(WorldPtr)>;
  using Spoil = Overlapped::Spoil;
  explicit LockstepEngine(Decorate decorate = nullptr, Spoil spoil = nullptr, Remade remade = nullptr,
                          SpoilForms forms = {})
      : decorate_(std::move(decorate)), spoil_(std::move(spoil)), remade_(std::move(remade)), forms_(forms) {}

  const EngineProfile& profile() const override { return own_profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override;
  // On these values, whatever the Case says of them; only of what pends the locals are read.
  EngineResult run_on(const oracle::Case& c, const std::vector<oracle::InputTensors>& inputs,
                      bool want_timeline);

 private:
  Decorate decorate_;
  Spoil spoil_;
  Remade remade_;
  SpoilForms forms_;
};

// The same for Cases whose mesh is on a CUDA device.
class DeviceEngine : public LockstepEngine {
 public:
  using LockstepEngine::LockstepEngine;
  const EngineProfile& profile() const override { return device_profile(); }
};

// Runs the Program on these inputs in this thread, on the ranks of the Case's mesh that `world` hosts.
// @post values, timeline and traffic, that of the Program without its inputs, tell of those ranks alone.
EngineResult run_in(const WorldPtr& world, const oracle::Case& c,
                    const std::vector<oracle::InputTensors>& inputs, bool want_timeline, Traffic& traffic,
                    const LockstepEngine::Spoil& spoil = nullptr, const Remade& remade = nullptr,
                    const SpoilForms& forms = {});
// The same of any Case: its Program on its inputs, or what its suite runs (Suite::run), which has all of its
// traffic and no timeline.
EngineResult run_hosted(const WorldPtr& world, const oracle::Case& c, bool want_timeline, Traffic& traffic);

// What the ranks hold that are hosted here; of an undefined tensor, nothing. @pre else it is a DTensor
EngineValue value_of(const at::Tensor& tensor);

}  // namespace lockstep::suites
