// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch. Lockstep's engine, with its timeline withheld.
#include "suites/core/bounded.h"

#include <gtest/gtest.h>

#include "engine/ops/rules/table.h"
#include "oracle/judge/twin.h"
#include "suites/core/judge.h"
#include "suites/core/suite.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/fault.h"

namespace lockstep::suites {
namespace {

// An engine that does not say what it did.
class Withheld : public EngineUnderTest {
 public:
  explicit Withheld(EnginePtr engine) : engine_(std::move(engine)), profile_(engine_->profile()) {
    profile_.flags = 0;
  }
  const EngineProfile& profile() const override { return profile_; }
  EngineResult run(const oracle::Case& c, bool) override { return engine_->run(c, false); }
  std::unique_ptr<RandomSource> plain_source() override { return engine_->plain_source(); }

 private:
  EnginePtr engine_;
  EngineProfile profile_;
};

// Catches: a bound that is too narrow, and one that judges next to nothing.
TEST(Bounded, TheRightEngineStaysWithin) {
  Withheld engine(make_engine("lockstep"));
  std::map<std::string, int64_t> counts;
  for (const auto* name : {"redistribute", "ops", "gradient", "random", "program"}) {
    const auto& suite = find_suite(name);
    for (int64_t i = 0; i < 250; ++i) {
      const auto c = suite.generate(6, i);
      const auto outcome = judge_safely(suite, c, engine);
      EXPECT_FALSE(dashboard::is_failure(verdict_of(outcome))) << oracle::to_token(c) << "\n"
                                                               << explanation_of(outcome);
      ++counts[dashboard::name(verdict_of(outcome))];
      if (const auto* gave_up = std::get_if<GaveUp>(&outcome)) ++counts[gave_up->refusal.reason];
    }
  }
  for (const auto& [what, n] : counts) std::printf("%5ld %s\n", n, what.c_str());
  EXPECT_GT(counts["bounded"], 20);
  EXPECT_LT(counts["gave_up"], counts["bounded"]);
}

// Catches: a sum that overflows on the way to an average, called wrong.
TEST(Bounded, AnOverflowOnTheWayIsNotJudged) {
  Withheld engine(make_engine("lockstep"));
  const auto c = oracle::parse_token(
      "v1:redistribute;mesh=2;seed=0;dev=1x256;x0=bf16[2]:special(91816)@[S0];"
      "v0=lockstep::redistribute(x0,@[Pavg])#fbb05293");
  const auto outcome = judge_safely(find_suite("redistribute"), c, engine);
  const auto* open = std::get_if<GaveUp>(&outcome);
  ASSERT_NE(open, nullptr) << explanation_of(outcome);
  EXPECT_EQ(open->refusal.reason, "not judged: no bound");
}

// To which all zeros are one, as to a sum that begins with 0.
class OneZero : public EngineUnderTest {
 public:
  const EngineProfile& profile() const override { return engine_.profile(); }
  EngineResult run(const oracle::Case& c, bool) override {
    auto result = engine_.run(c, false);
    for (size_t v = c.program.inputs.size(); v < result.values.size(); ++v) {
      auto& value = result.values[v];
      if (!value.defined() || value.spec->has_partial() || !c10::isFloatingType(value.spec->dtype()))
        continue;
      for (auto& local : value.locals) local = at::where(at::eq(local, 0), at::zeros_like(local), local);
    }
    return result;
  }

 private:
  Withheld engine_{make_engine("lockstep")};
};

// Catches: a zero of the wrong sign that passes for a rounding; one that the order of terms may choose,
// called wrong (the right engine, above) or right.
TEST(Bounded, TheSignOfAZeroIsFoundOrNotJudged) {
  const auto clean = make_engine("lockstep");
  OneZero planted;
  int64_t found = 0, open = 0;
  for (const auto* name : {"redistribute", "ops", "gradient", "program"}) {
    const auto& suite = find_suite(name);
    for (int64_t i = 0; i < 800; ++i) {
      const auto c = suite.generate(6, i);
      try {
        if (first_disagreement(clean->run(c, false), planted.run(c, false)).empty()) continue;
      } catch (const std::exception&) {
        continue;
      }
      const auto outcome = judge_safely(suite, c, planted);
      EXPECT_FALSE(std::holds_alternative<Passed>(outcome)) << oracle::to_token(c) << "\n"
                                                            << explanation_of(outcome);
      found += explanation_of(outcome).find("zero of the other sign") != std::string::npos;
      open += std::holds_alternative<GaveUp>(outcome);
    }
  }
  std::printf("%ld zeros found by their sign, %ld not judged\n", found, open);
  EXPECT_GT(found, 60);
  EXPECT_LT(open, found);
}

// Of the cases in which the fault changes a value, and one of the float64 twin: none may pass. (What is zero
// but for roundings, such as the gradient of x / x, is zero when it is doubled.)
struct Tally {
  int64_t changed = 0, found = 0, by_bound = 0, open = 0;
};

bool changes(EngineUnderTest& clean, const Fault& fault, const oracle::Case& c) {
  return !first_disagreement(clean.run(c, false), fault.plant()->run(c, false)).empty();
}

Tally tally(const Fault& fault, int64_t cases) {
  const auto& suite = find_suite(fault.suite);
  const auto clean = make_engine("lockstep");
  // Clean, too, it leaves means pending, as where a fault has changed their rows.
  const RuleScope pends("aten::mean", find_op("aten::mean")->rows);
  Tally t;
  for (int64_t i = 0; i < cases; ++i) {
    const auto c = suite.generate(3, i);
    if (!fault.touches(c)) continue;
    try {
      if (!changes(*clean, fault, c) || !changes(*clean, fault, oracle::float64_twin(c))) continue;
    } catch (const std::exception&) {
      continue;
    }
    Withheld engine(fault.plant());
    const auto outcome = judge_safely(suite, c, engine);
    if (verdict_of(outcome) == dashboard::Verdict::kEqual)
      continue;  // it pends in another way, to the same bits
    ++t.changed;
    EXPECT_FALSE(std::holds_alternative<Passed>(outcome))
        << fault.name << " passed: " << oracle::to_token(c) << "\n"
        << explanation_of(outcome);
    if (const auto* f = std::get_if<Failed>(&outcome)) ++t.found, t.by_bound += f->verdict == "bound";
    t.open += std::holds_alternative<GaveUp>(outcome);
  }
  return t;
}

// Catches: a bound under which a term can be lost, doubled or averaged, and the case is green.
TEST(Bounded, LostDoubledAndAveragedTermsAreFoundOrNotJudged) {
  Tally all;
  for (const auto* name : {"term-lost", "term-doubled", "mean-reduced-as-sum", "mm-not-reduced",
                           "sum-not-reduced", "mean-of-uneven", "gradient-of-replica-doubled",
                           "gradient-of-partial-divided", "mul-keeps-partials"}) {
    const auto t = tally(find_fault(name), 400 + find_fault(name).cases / 2);
    std::printf("%-30s changes %3ld cases: %3ld found, %3ld of them by a bound, %ld not judged\n", name,
                t.changed, t.found, t.by_bound, t.open);
    all.changed += t.changed, all.found += t.found, all.by_bound += t.by_bound, all.open += t.open;
  }
  EXPECT_GT(all.by_bound, 10);
  EXPECT_GT(all.found, 9 * all.open);
}

}  // namespace
}  // namespace lockstep::suites
