// SPDX-License-Identifier: Apache-2.0
// Wherever an adversary comes to another result than the honest engine, the verdict is a failure; the honest
// engine passes in all of these cases. Catches: a judge that believes what it is told.
#include <gtest/gtest.h>

#include <set>

#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "suites/adversaries/adversary.h"
#include "suites/core/hash_log.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

struct Tally {
  int acted = 0, passed = 0;
  std::string first;  // that passed
};

// What is thrown is no lie: an engine that does not answer.
std::optional<EngineResult> result_of(EngineUnderTest& engine, const oracle::Case& c) {
  try {
    return engine.run(c, true);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Rules of a mean are an adversary's way in: beside one, the honest engine leaves it pending by its rows,
// too.
void meet(const Adversary& adversary, const oracle::Case& c, Tally& tally) {
  const RuleScope pends("aten::mean", find_op("aten::mean")->rows);
  LockstepEngine honest;
  const auto liar = adversary.plant();
  const auto right = result_of(honest, c), wrong = result_of(*liar, c);
  if (!right || !wrong || !differ(*right, *wrong)) return;
  ++tally.acted;
  const auto& suite = find_suite(c.suite);
  ASSERT_TRUE(std::holds_alternative<Passed>(judge_safely(suite, c, honest)))
      << oracle::to_token(c) << explanation_of(judge_safely(suite, c, honest));
  const auto outcome = judge_safely(suite, c, *liar);
  if (std::holds_alternative<Failed>(outcome)) return;
  ++tally.passed;
  if (tally.first.empty()) tally.first = concat(oracle::to_token(c), "\n", explanation_of(outcome));
}

// The case in another floating dtype, but for values that are given as bits.
oracle::Case in_dtype(oracle::Case c, c10::ScalarType dtype) {
  for (auto& input : c.program.inputs)
    if (c10::isFloatingType(input.dtype) && input.values.kind != oracle::ValueKind::kBits)
      input.dtype = dtype;
  return c;
}

// Of a dimension of one element or of none, or of one rank, whatever is said may be true.
bool is_ordinary(const oracle::Case& c) {
  for (int64_t d = 0; d < c.mesh.ndim(); ++d)
    if (c.mesh.size(d) == 1) return false;
  return std::all_of(c.program.inputs.begin(), c.program.inputs.end(), [](const oracle::Input& input) {
    return std::all_of(input.shape.begin(), input.shape.end(), [](int64_t n) { return n > 1; });
  });
}

class Meets : public testing::TestWithParam<size_t> {};

TEST_P(Meets, ItsJudge) {
  constexpr int kCases = 30;
  constexpr int64_t kMost = 10000;
  const auto& adversary = adversaries()[GetParam()];
  for (const auto& token : adversary.tokens) {
    Tally tally;
    const auto c = oracle::parse_token(token);
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      meet(adversary, in_dtype(c, dtype), tally);
    meet(adversary, c, tally);
    EXPECT_GT(tally.acted, 0) << adversary.name << " does nothing in " << token;
    EXPECT_EQ(tally.passed, 0) << adversary.name << ": " << adversary.hole << "\n" << tally.first;
  }
  if (adversary.suite[0] == '\0') return;
  Tally tally;
  const auto& suite = find_suite(adversary.suite);
  for (int64_t index = 0; tally.acted < kCases && index < kMost; ++index) {
    const auto c = suite.generate(20, index);
    if ((adversary.of_nothing || is_ordinary(c)) && adversary.touches(c)) meet(adversary, c, tally);
  }
  EXPECT_GT(tally.acted, 0) << adversary.name << " does nothing in cases of " << suite.name;
  EXPECT_EQ(tally.passed, 0) << adversary.name << ": " << adversary.hole << "\n" << tally.first;
}

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name = adversaries()[info.param].name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, Meets, testing::Range(size_t{0}, adversaries().size()), name_of);

// Catches: what an earlier run leaves behind for a later one in its process, a decision among it; and a
// difference that is none, by which each adversary acts in every case.
TEST(Adversaries, ACaseRunTwiceComesToOneResult) {
  const auto& suite = find_suite("edges");
  int run = 0;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (int64_t index = 0; index < 100; ++index) {
      const auto c = suite.generate(seed, index);
      const auto& calls = c.program.calls;
      if (std::any_of(calls.begin(), calls.end(), [](auto& call) { return leaves_unwritten(call.op); }))
        continue;
      LockstepEngine engine;
      const auto first = result_of(engine, c), second = result_of(engine, c);
      ASSERT_EQ(first.has_value(), second.has_value()) << oracle::to_token(c);
      EXPECT_FALSE(first && differ(*first, *second)) << oracle::to_token(c);
      run += first.has_value();
    }
  EXPECT_GT(run, 350);
}

// Catches: two adversaries of one name, of which a report would show one.
TEST(Adversaries, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const auto& a : adversaries()) {
    EXPECT_TRUE(names.insert(a.name).second) << a.name;
    EXPECT_FALSE(a.tokens.empty()) << a.name;
  }
}

}  // namespace
}  // namespace lockstep::suites
