// SPDX-License-Identifier: Apache-2.0
// Crew: processes that host the ranks of cases and answer requests (serve.h), while all of them live.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/world/flight_files.h"
#include "suites/core/engine_under_test.h"
#include "suites/engines/wire.h"

namespace lockstep::suites {

// Of what a crew keeps while a failure is shrunk.
using lockstep::drop_flights;
using lockstep::own_flights;

// What came of a request to one process.
struct Heard {
  wire::Message answer{};
  std::optional<EngineFailure> failure{};

  std::string type() const;
  std::string reason() const;
  bool lost_another() const { return answer.header.value("rank_lost", false); }
  bool connected() const { return !answer.header.is_object() || answer.header.value("connected", true); }
};

class Crew {
 public:
  virtual ~Crew() = default;
  virtual int64_t size() const = 0;
  // Whether there can be another, once one of its processes is lost.
  virtual bool can_be_replaced() const { return true; }
  // What the first `used` processes answer. It takes no longer than one answer may.
  virtual std::vector<Heard> ask(const wire::Message& request, int64_t used) = 0;
  // Before a World of n ranks begins.
  virtual void forget(int64_t /*n*/) {}
  // Of n ranks: where they parted, and their flights, written to files; "" where all did the same to the end,
  // or nobody keeps what they did.
  virtual std::string parted(const std::string& /*token*/, int64_t /*n*/) const { return ""; }
};
using CrewPtr = std::unique_ptr<Crew>;

// Starts `command` so many times, each with its place as further arguments: "--process 2/4 --meet FILE
// --patience SECONDS --log FILE --flight FILE". @param seconds for one answer, @param start until all have
// met. Throws NoProcesses.
CrewPtr start_crew(const std::vector<std::string>& command, int64_t processes, double seconds, double start);

// Whether a launcher started this process as one of several.
bool launched();
// Those that the launcher started, this one the first: it answers for its ranks itself. What ends with it
// ends the others, which are told why. @param seconds for one answer, and until all have met. Throws
// NoProcesses.
CrewPtr join_crew(double seconds);
// Whether this process is one of the others.
bool follows();
// What it does: answers until the first one says that all is done. @returns the exit code. Throws
// NoProcesses, and RankLost where the first one is gone, or says that another is. @param seconds as for
// join_crew
int follow(double seconds);

}  // namespace lockstep::suites
