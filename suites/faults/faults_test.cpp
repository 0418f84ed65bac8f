// SPDX-License-Identifier: Apache-2.0
// The table of faults, and that the suite `faults` itself can fail. That each fault is found is the suite's
// own work.
#include "suites/faults/fault.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/values/error.h"
#include "suites/faults/planters.h"
#include "suites/faults/rewrite.h"
#include "suites/laws/laws.h"
#include "suites/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// Catches: a class of mistakes that loses its faults, a name used twice.
TEST(Faults, TwoOfEachClassAndNoNameTwice) {
  std::map<std::string, int> classes;
  std::set<std::string> names;
  for (const auto& f : faults()) {
    ++classes[f.klass];
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_EQ(&find_fault(f.name), &f);
    EXPECT_LE(f.ops, 4) << f.name;
  }
  EXPECT_GE(faults().size(), 24u);
  for (int k = 1; k <= 14; ++k) EXPECT_GE(classes[concat("K", k)], 2) << "K" << k;
  EXPECT_THROW(find_fault("nosuch"), Error);
}

// Catches: a suite `faults` that says found of a fault that changes nothing, or that counts failures of the
// clean engine.
TEST(Faults, WhatIsNoFaultSurvives) {
  Fault harmless = faults()[0];
  harmless.name = "harmless";
  harmless.cases = 40;
  harmless.plant = [] { return with_world({}); };
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
