// SPDX-License-Identifier: Apache-2.0
// A Case cut short: to run what was there before one of its calls.
#pragma once
#include "oracle/program/program.h"

namespace lockstep::oracle {

// The Case whose Program ends before this call.
inline Case before_call(const Case& c, size_t call) {
  Case shorter = c;
  shorter.program.calls.resize(call);
  return shorter;
}

}  // namespace lockstep::oracle
