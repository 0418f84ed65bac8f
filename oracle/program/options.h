// SPDX-License-Identifier: Apache-2.0
// Options of Cases that are Programs, which whoever runs one must know.
#pragma once
#include "oracle/program/program.h"

namespace lockstep::oracle {

// Whether ops without a sharding rule run whole, on every rank alike (`options=fallback:replicate`); else the
// engine refuses them.
inline bool allows_fallback(const Case& c) {
  const auto found = c.options.find("fallback");
  return found != c.options.end() && found->second == "replicate";
}
inline void allow_fallback(Case& c) {
  c.options["fallback"] = "replicate";
}

}  // namespace lockstep::oracle
