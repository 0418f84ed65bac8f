// SPDX-License-Identifier: Apache-2.0
// Planted faults: mistakes that real engines and programs made, put into Lockstep's engine, or into the
// oracle that judges it, through extension points and decorators only. The suite `faults` must find every
// one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "suites/core/engine_under_test.h"

namespace lockstep::suites {

struct Fault {
  int64_t number;  // of its case in the suite; never given to another
  const char* name;
  const char* klass;  // K1 … K16, see README.md
  const char* what;   // one sentence: what is done wrong
  const char* suite;  // whose cases find it
  int64_t cases;      // found within so many
  int64_t ops;        // shrinks to at most so many
  // False for cases in which the fault cannot act; they count, but are not run.
  std::function<bool(const oracle::Case& c)> touches;
  std::function<EnginePtr()> plant;
};

// By number, from 0.
std::span<const Fault> faults();
// Those that the suite cannot search for, since they take the process along, stop it, or come and go: for
// --fault alone, where the harness isolates, stops and repeats cases. Their class is "process".
std::span<const Fault> process_faults();
// Of both lists. Throws Error that lists the names.
const Fault& find_fault(std::string_view name);

}  // namespace lockstep::suites
