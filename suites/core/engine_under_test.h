// SPDX-License-Identifier: Apache-2.0
// EngineUnderTest: what every suite talks to. Lockstep's own engine, in process, is the first implementation;
// planted faults wrap one; other engines come as processes that read Programs and write tensors.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/stream/random_call.h"
#include "engine/values/error.h"
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/values/timeline.h"
#include "oracle/program/program.h"
#include "oracle/random/random_simulation.h"
#include "suites/core/profile.h"

namespace lockstep::suites {

// One value of the Program as the engine holds it: a Spec and the local tensor of every rank, in mesh order.
struct EngineValue {
  SpecPtr spec;  // null: undefined
  PerRank<at::Tensor> locals;
  bool defined() const { return spec != nullptr; }
};

struct EngineResult {
  std::vector<EngineValue> values;  // one for each value of the Program, inputs first; else what it ends with
  Timeline timeline;                // empty if not asked for, or if the engine has none
  bool has_timeline = false;
  RandomState random_after;
  int64_t bytes_moved = 0;
  int64_t fallbacks = 0;                    // ops without a rule that ran whole (oracle/program/options.h)
  std::vector<std::string> never_waited{};  // redistributions that were begun and never used (overlap.h)
  std::vector<std::string> acted{};         // what rows of a plan did, in turn (suites/plans)
};

// What an engine in another process did instead of answering.
struct EngineFailure : std::runtime_error {
  enum class Kind {
    kError,  // it answered that it failed
    kWire,   // what it sent cannot be read
    kDied,
    kHung,
  };
  EngineFailure(Kind k, std::string e, const std::string& what)
      : std::runtime_error(what), kind(k), end(std::move(e)) {}
  Kind kind;
  std::string end;  // of kDied: "signal 11 (Segmentation fault)"
};

// Whether the engine answered nothing that can be read, or its device failed. It is a finding, whatever was
// asked.
inline bool is_lost(const std::exception& e) {
  if (dynamic_cast<const c10::AcceleratorError*>(&e) != nullptr) return true;
  const auto* failure = dynamic_cast<const EngineFailure*>(&e);
  return failure != nullptr && failure->kind != EngineFailure::Kind::kError;
}

// What an engine in another process said no to: the op, "" if it named none, and why in few words.
struct EngineRefusal : NotBuilt {
  EngineRefusal(std::string o, std::string w, const std::string& text)
      : NotBuilt(text), op(std::move(o)), why(std::move(w)) {}
  std::string op, why;
};

struct TrainFault;    // suites/train
struct ShardedFault;  // suites/fsdp

class EngineUnderTest {
 public:
  virtual ~EngineUnderTest() = default;
  // Who it is and what it can do. A decorator's is that of the engine which it wraps.
  virtual const EngineProfile& profile() const = 0;
  // Runs the Program on DTensors, or what the Case's suite runs (Suite::run). Throws Refused for a program
  // that the engine refuses by its documentation, NotBuilt for what it does not have yet, and from another
  // process EngineRefusal for both; any other exception is a finding.
  // @post the locals are what the ranks hold at the end, so that an in-place op later in the Program shows.
  virtual EngineResult run(const oracle::Case& c, bool want_timeline) = 0;
  // Who draws in the plain run that judges it: the oracle's simulation, unless a planted fault is on that
  // side.
  virtual std::unique_ptr<RandomSource> plain_source() { return std::make_unique<oracle::SimulatedSource>(); }
  // What is wrong in the trainings that a suite runs by itself: null, unless a fault is planted there.
  virtual const TrainFault* train_fault() const { return nullptr; }
  virtual const ShardedFault* sharded_fault() const { return nullptr; }
  // Whether what it runs on was lost, and cannot be had again: every further run throws what the last one
  // threw.
  virtual bool is_gone() const { return false; }
};
using EnginePtr = std::unique_ptr<EngineUnderTest>;

}  // namespace lockstep::suites
