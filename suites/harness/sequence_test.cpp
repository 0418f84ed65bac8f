// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

std::vector<const Suite*> all_suites() {
  std::vector<const Suite*> chosen;
  for (const auto& s : suites()) chosen.push_back(&s);
  return chosen;
}

// Catches: a case that is left out or comes twice, an order that depends on how the sequence was asked.
TEST(Sequence, EachSuiteCountsUpWithoutHoles) {
  Sequence forward(all_suites()), jumped(all_suites());
  jumped.at(3000);
  std::map<std::string, int64_t> next;
  for (int64_t n = 0; n < 3000; ++n) {
    const auto p = forward.at(n);
    EXPECT_EQ(p, jumped.at(n));
    EXPECT_EQ(p.index, next[p.suite->name]++);
    EXPECT_LT(p.index, p.suite->limit);
  }
  for (const auto& s : suites()) EXPECT_GT(next[s.name], 0) << s.name << " has no case in the first 3000";
}

// Catches: rounds() and at() counting differently; a suite of a limit that goes on.
TEST(Sequence, RoundsCountWhatTheyHold) {
  for (const int64_t rounds : {1, 5, 60}) {
    Sequence sequence(all_suites());
    std::map<std::string, int64_t> seen;
    for (int64_t n = 0; n < sequence.rounds(rounds); ++n) ++seen[sequence.at(n).suite->name];
    for (const auto& s : suites()) EXPECT_EQ(seen[s.name], std::min(s.limit, rounds * s.weight)) << s.name;
  }
  Sequence finite({&find_suite("faults"), &find_suite("canary")});
  EXPECT_EQ(finite.size(), find_suite("faults").limit + find_suite("canary").limit);
  EXPECT_EQ(finite.at(finite.size() - 1).suite->name, std::string("faults"));
  EXPECT_THROW(finite.at(finite.size()), Broken);
}

// Law: when a part t of the round is over, a suite of weight w has had w*t cases, to half a case, and all of
// them together n, to half a case each. Catches: a run of few cases in which the suites of the table's end
// have none; an order that depends on how the suites were named.
TEST(Sequence, PrefixesHaveTheirShareOfEverySuite) {
  auto chosen = all_suites();
  Sequence sequence(chosen);
  std::reverse(chosen.begin(), chosen.end());
  Sequence reversed(chosen);
  int64_t of_round = 0;
  for (const auto& s : suites()) of_round += s.weight;
  std::map<std::string, int64_t> seen;
  for (int64_t n = 0; n < 2 * of_round; ++n) {
    EXPECT_EQ(sequence.at(n), reversed.at(n));
    ++seen[sequence.at(n).suite->name];
    for (const auto& s : suites()) {
      const double share = static_cast<double>((n + 1) * s.weight) / static_cast<double>(of_round);
      const double others =
          static_cast<double>(std::ssize(suites()) * s.weight) / static_cast<double>(of_round);
      EXPECT_LE(std::abs(static_cast<double>(seen[s.name]) - share), 0.5 + others / 2)
          << s.name << " of " << n + 1;
    }
  }
}

// Catches: a generator that depends on what was generated before, or on the process.
TEST(Sequence, CasesArePureFunctionsOfSeedAndIndex) {
  for (const auto& s : suites()) {
    const auto limit = std::min<int64_t>(s.limit, 30);
    std::vector<std::string> tokens;
    for (int64_t i = 0; i < limit; ++i) tokens.push_back(oracle::to_token(s.generate(5, i)));
    for (int64_t i = limit - 1; i >= 0; --i)
      EXPECT_EQ(oracle::to_token(s.generate(5, i)), tokens[static_cast<size_t>(i)]) << s.name << " " << i;
  }
}

// Catches: a token that names another suite than the one that judges it, or does not parse back.
TEST(Sequence, TokensNameTheirSuite) {
  for (const auto& s : suites()) {
    const auto c = s.generate(1, 0);
    EXPECT_EQ(c.suite, s.name);
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c) << s.name;
  }
}

}  // namespace
}  // namespace lockstep::suites
