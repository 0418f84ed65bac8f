// SPDX-License-Identifier: Apache-2.0
// RanksEngine: Lockstep's own engine with its ranks in processes of their own, which are started once and run
// one case after the other (serve_ranks). Each is given the token, and answers for the ranks that it hosts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {

// The processes cannot move bits here: their self-test failed, or they did not meet.
struct NoProcesses : Error {
  using Error::Error;
};

class RanksEngine : public EngineUnderTest {
 public:
  // Starts `command` so many times, each with its place as further arguments: "--process 2/4 --meet FILE
  // --patience SECONDS --log FILE --flight FILE". @param seconds for one answer. Throws NoProcesses.
  RanksEngine(std::vector<std::string> command, int64_t processes, double seconds);
  ~RanksEngine() override;

  const EngineProfile& profile() const override;
  // @post what LockstepEngine gives: values, timeline, bytes. Throws what EngineUnderTest says; EngineFailure
  // names the process that died or did not answer, what those that wait for it say, and the first exchange in
  // which ranks parted, with the files of their flights. After one that is lost, the next run starts all of
  // them anew.
  EngineResult run(const oracle::Case& c, bool want_timeline) override;
  // And what each rank sent.
  EngineResult run(const oracle::Case& c, bool want_timeline, Traffic& traffic);

 private:
  class Crew;
  std::vector<std::string> command_;
  int64_t processes_;
  double seconds_;
  std::unique_ptr<Crew> crew_;
  int64_t world_ = 0;  // the number of the last one
};

}  // namespace lockstep::suites
