// SPDX-License-Identifier: Apache-2.0
// EngineUnderTest: what every suite talks to. Lockstep's own engine, in process, is the first implementation;
// planted faults wrap one; other engines come as processes that read Programs and write tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/stream/random_call.h"
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/values/timeline.h"
#include "oracle/program/program.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::suites {

// One value of the Program as the engine holds it: a Spec and the local tensor of every rank, in mesh order.
struct EngineValue {
  SpecPtr spec;  // null: undefined
  PerRank<at::Tensor> locals;
  bool defined() const { return spec != nullptr; }
};

struct EngineResult {
  std::vector<EngineValue> values;  // one for each value of the Program, inputs first
  Timeline timeline;                // empty if not asked for, or if the engine has none
  bool has_timeline = false;
  RandomState random_after;
  int64_t bytes_moved = 0;
};

class EngineUnderTest {
 public:
  virtual ~EngineUnderTest() = default;
  virtual std::string name() const = 0;
  // Runs the Program on DTensors. Throws Refused for a program that the engine refuses by its documentation,
  // NotBuilt for what it does not have yet; any other exception is a finding.
  // @post the locals are what the ranks hold at the end, so that an in-place op later in the Program shows.
  virtual EngineResult run(const oracle::Case& c, bool want_timeline) = 0;
  // Who draws in the plain run that judges it: the oracle's simulation, unless a planted fault is on that
  // side.
  virtual std::unique_ptr<RandomSource> plain_source() { return std::make_unique<oracle::SimulatedSource>(); }
};

}  // namespace lockstep::suites
