// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/sample_call.h"

#include <gtest/gtest.h>

#include "engine/values/refused.h"
#include "suites/core/facts.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// Rows with other kinds of shards are made of those that stand there, where a call brings them.
bool is_plain(const std::string& row) {
  return row.find_first_of("ING", row.find('[')) == std::string::npos;
}

// The row that an op takes is one that its rule offers.
// Catches: offers in another form than rows, of other arguments, or of some calls only: rows that no run
// takes would be listed though they are, and rows that are never taken would not.
TEST(OfferedRows, HoldThoseThatAreTaken) {
  LockstepEngine engine;
  int64_t seen = 0;
  for (const auto* name : {"ops", "gradient"})
    for (int64_t i = 0; i < 150; ++i) {
      const auto c = find_suite(name).generate(3, i);
      Facts facts;
      EngineResult run;
      try {
        run = Observing(engine, facts).run(c, true);
      } catch (const Refused&) {
        continue;
      }
      const auto offers = offered_rows(run);
      for (const auto& row : facts.rows) {
        const auto form = row.substr(0, row.rfind(']') + 1);
        if (!is_plain(form)) continue;
        EXPECT_TRUE(offers.contains(form)) << form << " of " << oracle::to_token(c);
        ++seen;
      }
    }
  EXPECT_GT(seen, 300);
}

}  // namespace
}  // namespace lockstep::suites
