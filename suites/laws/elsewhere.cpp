// SPDX-License-Identifier: Apache-2.0
// The law of what is no Program: it is judged with all ranks in one thread, and ranks in another World end
// with the same bits, draw as much and send as much.
#include "engine/values/error.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {

Outcome judged_elsewhere(const Suite& suite, const oracle::Case& c, EngineUnderTest& engine, Passed here) {
  Traffic traffic;
  const auto expected = run_hosted(local_world(c.mesh.size(), c.mesh.device_type()), c, false, traffic);
  EngineResult there;
  try {
    there = engine.run(c, false);
  } catch (const EngineFailure&) {
    throw;
  } catch (const Error& e) {
    return failed(suite.name, "exception", "", "-", "-", e.what());
  }
  auto why = first_disagreement(expected, there);
  if (why.empty() && expected.random_after != there.random_after) why = "the random stream ends elsewhere";
  if (why.empty() && expected.bytes_moved != there.bytes_moved)
    why = concat(there.bytes_moved, " bytes have moved, and ", expected.bytes_moved, " in one thread");
  if (!why.empty()) return failed(suite.name, "different", "", "-", "-", concat("in its World: ", why));
  here.bytes_moved -= there.bytes_moved;  // which who looks at runs of the engine has counted (facts.h)
  return here;
}

}  // namespace lockstep::suites
