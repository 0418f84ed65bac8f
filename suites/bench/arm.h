// SPDX-License-Identifier: Apache-2.0
// Arm: a process that is measured in turns with others, from the side of the one who asks (serve.h).
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "engine/values/error.h"

namespace lockstep::suites {

// The process does not answer as one that can be measured: too old, hanging, dead. Names the program, and
// what to do.
struct ArmError : Error {
  using Error::Error;
};

class Arm {
 public:
  // @param command the program and what precedes its own arguments; it is started with `bench --serve-rounds`
  // @param patience seconds that it may take for one answer
  Arm(std::vector<std::string> command, double patience);
  ~Arm();  // ends the process
  Arm(const Arm&) = delete;
  Arm& operator=(const Arm&) = delete;

  std::vector<dashboard::Series> list();
  // All of these: ArmError if the process does not know the series. check() and sample() throw WrongBits.
  void check(const std::string& series);
  double sample(const std::string& series, double seconds);
  int64_t instructions(const std::string& series);  // calls made; 0: not for this series
  // Asks it to end, and waits for that.
  void quit();

 private:
  std::string ask(const std::string& request);
  std::string line();
  [[noreturn]] void fail(const std::string& what);

  std::vector<std::string> command_;
  double patience_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string received_;
};

}  // namespace lockstep::suites
