// SPDX-License-Identifier: Apache-2.0
// ProcessEngine: an engine in another process, behind the wire of WIRE.md. Whatever that process does, run()
// returns or throws within its time, and the next run meets a process that works.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "suites/core/engine_under_test.h"
#include "suites/engines/peer.h"

namespace lockstep::suites {

class ProcessEngine : public EngineUnderTest {
 public:
  // @param seconds for one answer, and for the first word. Starts it; throws Error if it does not speak the
  // wire.
  ProcessEngine(std::vector<std::string> command, double seconds);

  const EngineProfile& profile() const override { return profile_; }
  // Throws what EngineUnderTest says: EngineRefusal for what the engine refuses, EngineFailure for the rest.
  EngineResult run(const oracle::Case& c, bool want_timeline) override;

 private:
  void start();
  void greet();
  wire::Message ask(const wire::Message& message);

  std::vector<std::string> command_;
  double seconds_;
  EngineProfile profile_;
  std::optional<Peer> peer_;  // none: the next run starts it
  uint64_t id_ = 0;
};

}  // namespace lockstep::suites
