// SPDX-License-Identifier: Apache-2.0
// The law of what is no Program: it is judged with all ranks in one thread, and ranks in another World end
// with the same placements and bits, draw as much, and send as much in all.
#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

std::string unlike(const EngineResult& here, const EngineResult& there) {
  if (auto why = first_disagreement(here, there); !why.empty()) return why;
  for (size_t v = 0; v < here.values.size(); ++v)
    if (here.values[v].defined() && *here.values[v].spec != *there.values[v].spec)
      return concat("value ", v, " is ", *there.values[v].spec, " of strides ",
                    at::IntArrayRef(there.values[v].spec->stride()), ", and ", *here.values[v].spec,
                    " of strides ", at::IntArrayRef(here.values[v].spec->stride()), " in one thread");
  if (here.random_after != there.random_after) return "the random stream ends elsewhere";
  if (here.bytes_moved == there.bytes_moved) return "";
  return concat(there.bytes_moved, " bytes have moved, and ", here.bytes_moved, " in one thread");
}

}  // namespace

Outcome judged_elsewhere(const oracle::Case& c, EngineUnderTest& engine, Passed here) {
  const ForkRng keep;
  const auto expected = LockstepEngine().run(c, false);
  EngineResult there;
  if (auto failure = fails_to_run(c, engine, there)) return *std::move(failure);
  if (const auto why = unlike(expected, there); !why.empty())
    return failed(c.suite, "different", "", "-", "", concat("in its World: ", why));
  here.bytes_moved -= there.bytes_moved;  // which who looks at runs of the engine has counted (facts.h)
  return here;
}

}  // namespace lockstep::suites
