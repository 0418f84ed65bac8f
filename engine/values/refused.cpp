// SPDX-License-Identifier: Apache-2.0
#include "engine/values/refused.h"

namespace lockstep {

const char* name(Refusal why) {
  switch (why) {
    case Refusal::kView:
      return "view";
    case Refusal::kInPlace:
      return "in place";
    case Refusal::kStaleRead:
      return "stale read";
    case Refusal::kExplicit:
      return "explicit redistribution";
    case Refusal::kPlain:
      return "plain tensor";
    case Refusal::kMeshes:
      return "two meshes";
    case Refusal::kNoRule:
      return "no rule";
    case Refusal::kNoStream:
      return "no stream";
    case Refusal::kOut:
      return "out";
    case Refusal::kGenerator:
      return "generator";
    case Refusal::kNoReduction:
      return "no reduction";
    case Refusal::kMixedPartial:
      return "mixed partial";
  }
  throw Broken("an unknown refusal");
}

bool by_placements(Refusal why) {
  return why == Refusal::kView || why == Refusal::kInPlace || why == Refusal::kStaleRead;
}

}  // namespace lockstep
