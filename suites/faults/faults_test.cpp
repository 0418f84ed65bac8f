// SPDX-License-Identifier: Apache-2.0
// The table of faults, and that the suite `faults` itself can fail. That each fault is found is the suite's
// own work.
#include "suites/faults/fault.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/rewrite.h"
#include "suites/faults/tables.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// Catches: a class of mistakes that loses its faults, a name or a number used twice.
TEST(Faults, TwoOfEachClassAndNoNameTwice) {
  std::map<std::string, int> classes;
  std::set<std::string> names;
  int64_t number = 0;
  for (const auto& f : faults()) {
    EXPECT_EQ(f.number, number++) << f.name;
    ++classes[f.klass];
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_EQ(&find_fault(f.name), &f);
    // Begin, an op that draws and what it needs, one with a history, end, backward.
    const std::string_view name = f.name;
    const bool steps = name == "optimizer-forgets";  // detach, a step, another
    const int most = name.starts_with("recompute") ? 6 : steps || name == "no-grad-ignored" ? 5 : 3;
    EXPECT_LE(f.ops, most) << name;
  }
  EXPECT_GE(faults().size(), 24u);
  for (int k = 1; k <= 15; ++k) EXPECT_GE(classes[concat("K", k)], 2) << "K" << k;
  EXPECT_THROW(find_fault("nosuch"), Error);
}

// Catches: a suite `faults` that says found of a fault that changes nothing, or that counts failures of the
// clean engine.
TEST(Faults, WhatIsNoFaultSurvives) {
  Fault harmless = faults()[0];
  harmless.name = "harmless";
  harmless.cases = 40;
  harmless.plant = with_world_made([] { return WorldFault{}; });
  LockstepEngine clean;
  const auto outcome = look_for(harmless, clean);
  const auto* f = std::get_if<Failed>(&outcome);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->verdict, "survived");
  EXPECT_FALSE(f->fault->found);

  const auto always = faults()[0].plant();
  const auto both = look_for(faults()[0], *always);  // the "clean" engine has the fault, too
  EXPECT_TRUE(std::holds_alternative<Failed>(both));
}

// Catches: an engine for faults whose cases fail with nothing planted, so that each of its faults is found.
TEST(Faults, EnginesWithNothingPlantedPass) {
  const std::pair<const char*, Plant> all[] = {
      {"train", plant::unharmed_training()},   {"fsdp", plant::unharmed_sharding()},
      {"optim", plant::unharmed_steps()},      {"checkpoint", plant::unharmed_savings()},
      {"experts", plant::unharmed_mixtures()}, {"plans", plant::unharmed_plans()}};
  for (const auto& [name, plant] : all) {
    const auto& suite = find_suite(name);
    const auto engine = plant();
    for (int64_t i = 0; i < 12; ++i) {
      const auto c = suite.generate(1, i);
      const auto outcome = judge_safely(suite, c, *engine);
      EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << oracle::to_token(c);
    }
  }
}

// From the run of this number on, the first piece of every gather is lost.
// count.
EnginePtr late(std::shared_ptr<int> runs, int first) {
  return with_world_made([runs = std::move(runs), first] {
    WorldFault fault;
    if (++*runs >= first)
      fault.gathered = [](PerRank<Received>& all, const std::vector<Group>&) {
        for (auto& pieces : all) pieces.front() = at::zeros_like(pieces.front());
      };
    return fault;
  })();
}

// Catches: a case that fails for what the planted engine kept of the cases before it: its token alone, in a
// new process, would pass.
TEST(Faults, EachCaseMeetsTheFaultAnew) {
  Fault fault = find_fault("term-lost");
  fault.cases = 60;
  LockstepEngine clean;
  fault.plant = [] { return late(std::make_shared<int>(0), 1); };
  EXPECT_TRUE(std::holds_alternative<Passed>(look_for(fault, clean)));
  fault.plant = [] { return late(std::make_shared<int>(0), 8); };  // more runs than one case has
  const auto outcome = look_for(fault, clean);
  const auto* f = std::get_if<Failed>(&outcome);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->verdict, "survived");
}

bool spent = false;

// Catches: a fault that counts as found although its token passes when it is read back and judged again.
TEST(Faults, AFaultWhoseTokenDoesNotReplayIsNotFound) {
  Fault fault = find_fault("replica-drifts");
  spent = false;  // a replica differs in the first run that has one, and never again
  fault.plant = with_result([](const oracle::Case& c, EngineResult& result) {
    for (size_t i = c.program.inputs.size(); i < result.values.size() && !spent; ++i) {
      auto& v = result.values[i];
      if (!v.defined() || v.locals.size() < 2 || !v.spec->all_replicate() || v.locals.back().numel() == 0)
        continue;
      v.locals.back() = v.locals.back().logical_not().to(v.locals.back().scalar_type());
      spent = true;
    }
  });
  LockstepEngine clean;
  const auto outcome = look_for(fault, clean);
  const auto* f = std::get_if<Failed>(&outcome);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->verdict, "does not replay");
  EXPECT_FALSE(f->fault->found);
  EXPECT_FALSE(f->fault->token.empty());
}

// Catches: a stale buffer that one rank keeps from one run to the next, where a case of one gather shows it
// once and never again.
TEST(Faults, TheStaleBufferLivesAsLongAsOneRun) {
  auto c = oracle::parse_token(
      "v1:redistribute;mesh=1x2;seed=0;dev=1x256;x0=f16[3]:integers(0,-2,2)@[P,S0];"
      "v0=lockstep::redistribute(x0,@[P,R])#7e794e99");
  c.program.seed = 14;  // of which no other form of the redistribution is drawn, which gathers once more
  const auto engine = find_fault("one-rank-stale").plant();
  const auto& suite = find_suite("redistribute");
  auto of_ones = c;
  of_ones.program.inputs[0].values.kind = oracle::ValueKind::kOnes;
  for (const auto& each : {of_ones, c})
    EXPECT_TRUE(std::holds_alternative<Passed>(judge_safely(suite, each, *engine)));
}

// Catches: values renumbered wrongly where calls are inserted.
TEST(Rewriter, KeepsTheNumbersOfValues) {
  const auto c = oracle::parse_token(oracle::to_token(find_suite("program").generate(3, 5)));
  Rewriter r(c);
  for (const auto& call : c.program.calls) {
    r.insert("aten::clone", {oracle::Ref{0}, oracle::None{}});
    r.copy(call);
  }
  const auto rewritten = std::move(r).finish();
  ASSERT_EQ(static_cast<int64_t>(rewritten.values.size()), c.program.value_count());
  LockstepEngine engine;
  const auto before = engine.run(c, false), after = engine.run(rewritten.c, false);
  for (size_t v = 0; v < before.values.size(); ++v) {
    const auto& moved = after.values[static_cast<size_t>(rewritten.values[v])];
    ASSERT_EQ(before.values[v].defined(), moved.defined());
    if (!moved.defined()) continue;
    EXPECT_EQ(*before.values[v].spec, *moved.spec) << v;
  }
}

}  // namespace
}  // namespace lockstep::suites
