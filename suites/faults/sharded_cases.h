// SPDX-License-Identifier: Apache-2.0
// Which cases of the suite `fsdp` a fault can touch.
#pragma once
#include "oracle/program/program.h"

namespace lockstep::suites::plant {

// Of a case; `usual` where it has none of this name.
int64_t option(const oracle::Case& c, const char* name, int64_t usual = 0);
template <const auto& name>
bool has(const oracle::Case& c) {
  return option(c, name) > 0;
}
inline constexpr char kAmong[] = "among", kFactor[] = "factor", kFrozen[] = "frozen", kRows[] = "rows",
                      kClip[] = "clip", kIgnored[] = "ignored", kPlaced[] = "placed", kTied[] = "tied",
                      kThaws[] = "thaws", kPretrained[] = "pretrained", kKept[] = "kept",
                      kUnused[] = "unused", kCalls[] = "calls";

bool computes_in_half(const oracle::Case& c);
bool computes_in_another(const oracle::Case& c);
bool reduces_in_another(const oracle::Case& c);
bool returns_another(const oracle::Case& c);
bool reduces_in_f32(const oracle::Case& c);
bool waits_for_last(const oracle::Case& c);
bool is_counted(const oracle::Case& c);
bool keeps_outermost(const oracle::Case& c);
bool keeps_among(const oracle::Case& c);
bool keeps_gathered(const oracle::Case& c);
bool prefetches_next(const oracle::Case& c);
bool stays_by_hand(const oracle::Case& c);
bool runs_list(const oracle::Case& c);
bool has_terms(const oracle::Case& c);
bool prefetches_steps(const oracle::Case& c);
bool has_replicas(const oracle::Case& c);
bool waits_for_replicas(const oracle::Case& c);
bool steps_on(const oracle::Case& c);
bool drops(const oracle::Case& c);
bool drops_again(const oracle::Case& c);

}  // namespace lockstep::suites::plant
