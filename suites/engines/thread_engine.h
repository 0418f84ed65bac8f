// SPDX-License-Identifier: Apache-2.0
// Lockstep's own engine with one rank a thread, each of which knows nothing of the others but what it
// receives.
#pragma once
#include "engine/world/board.h"
#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {

class ThreadEngine : public EngineUnderTest {
 public:
  // @param patience how long a rank waits for another
  explicit ThreadEngine(Patience patience) : patience_(patience) {}
  const EngineProfile& profile() const override;
  // @post what LockstepEngine gives: values, timeline, bytes.
  EngineResult run(const oracle::Case& c, bool want_timeline) override;

 private:
  Patience patience_;
};

// The same, and what each rank sent.
EngineResult run_on_threads(const oracle::Case& c, bool want_timeline, Traffic& traffic, Patience patience);

}  // namespace lockstep::suites
