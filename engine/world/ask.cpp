// SPDX-License-Identifier: Apache-2.0
#include "engine/world/ask.h"

#include "engine/values/error.h"

namespace lockstep {
namespace {

std::string forms(const std::vector<Parcel>& parcels, int64_t place) {
  std::string text;
  for (const auto& parcel : parcels)
    if (parcel.place == place) text += concat(text.empty() ? "" : " ", form(parcel.tensor()));
  return text;
}

std::string sentence(int64_t rank, const Ask& ask, int64_t other) {
  const auto named = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  return concat("rank ", rank, " asks for ", ask.op, ", sends rank ", other, " ", named(ask.sends),
                " and expects ", named(ask.expects));
}

}  // namespace

Ask ask(const char* op, const Part& part, int64_t place) {
  return {op, forms(part.sent, place), forms(part.received, place)};
}

void agree(const std::string& exchange, int64_t rank, const Ask& ask, int64_t other, const Ask& theirs) {
  const bool fits = ask.op == theirs.op && ask.sends == theirs.expects && ask.expects == theirs.sends;
  LOCKSTEP_CHECK(fits, "[", ask.op, "] in ", exchange, " ", sentence(rank, ask, other), "; ",
                 sentence(other, theirs, rank), "; all ranks of a group ask for the same, in the same order");
}

}  // namespace lockstep
