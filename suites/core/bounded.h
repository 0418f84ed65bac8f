// SPDX-License-Identifier: Apache-2.0
// The law *bounded*, for an engine that logs no timeline: what is not equal lies within the bound of the
// float64 answer, for the Case and for its float64 twin on the same engine. Where the bound is so wide that a
// rank's part could be lost, doubled or averaged unseen, nothing is judged.
#pragma once
#include <optional>
#include <string>

#include "oracle/plain/evaluate.h"
#include "suites/core/engine_under_test.h"

namespace lockstep::suites {

struct Bounded {
  struct Outside {
    size_t value = 0;  // of the Program
    std::string text;
  };
  std::optional<Outside> outside;  // the first value that is no rounding of its answer
  std::string open;                // else why nothing was judged, in few words; "" if it was
  std::string note;                // for people
};

// @pre every value of `got` is placed as asked, and its replicas agree.
Bounded judge_bounded(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                      EngineUnderTest& engine);

}  // namespace lockstep::suites
