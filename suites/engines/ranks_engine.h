// SPDX-License-Identifier: Apache-2.0
// RanksEngine: Lockstep's own engine with its ranks in processes of their own, which are started once and run
// one case after the other (serve_ranks). Each is given the token, and answers for the ranks that it hosts.
#pragma once
#include <functional>
#include <optional>

#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/crew.h"

namespace lockstep::suites {

class RanksEngine : public EngineUnderTest {
 public:
  // Throws what `gather` throws: it makes the crew, and another where one is lost.
  explicit RanksEngine(std::function<CrewPtr()> gather);

  const EngineProfile& profile() const override;
  // @post what LockstepEngine gives: values, timeline, bytes. Throws what EngineUnderTest says; EngineFailure
  // names the process that died or did not answer, what those that wait for it say, and the first exchange in
  // which ranks parted, with the files of their flights. After one that is lost, the next run starts all of
  // them anew, or, of those that a launcher started, throws the same: the engine is gone.
  EngineResult run(const oracle::Case& c, bool want_timeline) override;
  // And what each rank sent.
  EngineResult run(const oracle::Case& c, bool want_timeline, Traffic& traffic);
  bool is_gone() const override { return gone_.has_value(); }

 private:
  std::function<CrewPtr()> gather_;
  CrewPtr crew_;
  std::optional<EngineFailure> gone_;
  int64_t world_ = 0;  // the number of the last one
};

}  // namespace lockstep::suites
