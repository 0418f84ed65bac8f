// SPDX-License-Identifier: Apache-2.0
// What golden/baseline.db can see, by computation.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ci/gate/chance.h"
#include "ci/gate/policy.h"
#include "dashboard/store/store.h"

namespace lockstep::gate {
namespace {

struct Op {
  Rate rate;            // of all its cases; hits are explained
  int64_t unmoved = 0;  // rates of it that have no explained case
};

// Every op of the baseline, and how many rates have an explained case.
struct Rates {
  std::map<std::string, Op> ops;
  int64_t explained = 0;
};

Rates rates_of(const std::string& file) {
  const auto store = dashboard::Store::open_reader(file);
  SQLite::Statement row(
      store.database(),
      "SELECT op, placement, sum(iif(verdict LIKE 'explained%', hits, 0)), sum(hits) FROM rate "
      "GROUP BY suite, op, placement");
  Rates rates;
  while (row.executeStep()) {
    const Rate rate{row.getColumn(2).getInt64(), row.getColumn(3).getInt64()};
    rates.explained += rate.hits > 0;
    const auto name = row.getColumn(0).getString();
    if (name.empty()) continue;
    auto& op = rates.ops[name];
    op.unmoved += rate.hits == 0;
    if (!row.getColumn(1).getString().empty()) continue;
    op.rate.hits += rate.hits;
    op.rate.of += rate.of;
  }
  for (const auto& [name, op] : rates.ops) rates.explained += op.rate.hits > 0;
  return rates;
}

// Law: a candidate that draws as many cases, and in which all cases of one op went from equal to explained
// and nothing else changed, trips explained_more, for each op of 30 cases. The rule divides `false_alarm` by
// the rates that have an explained case on either side: those of the baseline, and those of the op that had
// none. Catches: a baseline too small for the rule to see anything, a rule that counts rates which cannot
// alarm.
TEST(OwnBaseline, SeesEveryOpOf30CasesMove) {
  const auto rates = rates_of(LOCKSTEP_OWN_BASELINE);
  const double false_alarm = default_policy().numbers.at("false_alarm");
  std::vector<std::string> blind;
  int64_t large = 0, small_and_blind = 0;
  for (const auto& [name, op] : rates.ops) {
    const auto asked = static_cast<double>(rates.explained + op.unmoved + 1);
    const bool seen =
        op.rate.hits < op.rate.of && chance_of_more({op.rate.of, op.rate.of}, op.rate) <= false_alarm / asked;
    large += op.rate.of >= 30;
    small_and_blind += op.rate.of < 30 && !seen;
    if (op.rate.of >= 30 && !seen) blind.push_back(name);
  }
  std::printf(
      "%zu ops, %ld of them of 30 cases; blind: %zu of these, %ld of the others; %ld rates are explained\n",
      rates.ops.size(), large, blind.size(), small_and_blind, rates.explained);
  EXPECT_EQ(blind, std::vector<std::string>{});
  EXPECT_GT(large, 300);
}

}  // namespace
}  // namespace lockstep::gate
