// SPDX-License-Identifier: Apache-2.0
// The options that a Case which is a Program may have, in any suite: oracle/program/options.h and
// by_library.h.
#pragma once
#include "oracle/program/options.h"
#include "suites/core/by_library.h"

namespace lockstep::suites {

inline constexpr const char* kKnownOptions = "fallback:replicate and reduce:library";
inline bool has_known_options(const oracle::Case& c) {
  const int known = (oracle::allows_fallback(c) ? 1 : 0) + (is_by_library(c) ? 1 : 0);
  return std::ssize(c.options) == known;
}

}  // namespace lockstep::suites
