// SPDX-License-Identifier: Apache-2.0
// What ranks in another World end with is held against one thread: each thing that may part is planted.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// Lockstep's own engine, as one whose ranks are in another World, and something done to what they end with.
class Elsewhere : public EngineUnderTest {
 public:
  using Spoil = std::function<void(EngineResult&)>;
  explicit Elsewhere(Spoil spoil) : spoil_(std::move(spoil)) {}
  const EngineProfile& profile() const override { return world_profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    auto result = LockstepEngine().run(c, want_timeline);
    spoil_(result);
    return result;
  }

 private:
  Spoil spoil_;
};

std::string verdict_under(const Suite& suite, const oracle::Case& c, const Elsewhere::Spoil& spoil) {
  Elsewhere engine(spoil);
  const auto outcome = judge_safely(suite, c, engine);
  if (std::holds_alternative<Passed>(outcome)) return "passed";
  const auto* failure = std::get_if<Failed>(&outcome);
  return failure == nullptr ? "not judged" : failure->explanation;
}

// The first of its cases on several ranks whose last value has an element on the last one.
oracle::Case some_ranks(const Suite& suite) {
  for (int64_t i = 0;; ++i) {
    auto c = suite.generate(11, i);
    if (c.mesh.size() > 1 && LockstepEngine().run(c, false).values.back().locals.back().numel() > 0) return c;
  }
}

// Catches: a comparison that looks at less than it says.
TEST(JudgedElsewhere, WhatPartsIsADifference) {
  const std::vector<std::pair<Elsewhere::Spoil, std::string>> wrongs = {
      {[](EngineResult&) {}, "passed"},
      {[](EngineResult& r) {
         auto& local = r.values.back().locals.back();
         local = local.clone();
         local.view(-1)[0].sub_(3);
       },
       "at position "},
      {[](EngineResult& r) {
         const auto& spec = *r.values.back().spec;
         const Placements pending(spec.placements().size(), Partial{});
         r.values.back().spec = std::make_shared<const Spec>(spec.with_placements(pending));
       },
       "in one thread"},
      {[](EngineResult& r) { r.values.pop_back(); }, "another number of values"},
      {[](EngineResult& r) { r.random_after.offset += 4; }, "the random stream ends elsewhere"},
      {[](EngineResult& r) { r.bytes_moved += 8; }, "bytes have moved"},
      {[](EngineResult&) { throw std::logic_error("a rank has seen what must not be"); }, "must not be"},
      {[](EngineResult&) { throw EngineFailure(EngineFailure::Kind::kDied, "signal 9", "a rank died"); },
       "a rank died"},
  };
  for (const auto* name : {"dbuffer", "fsdp"}) {
    const auto& suite = find_suite(name);
    const auto c = some_ranks(suite);
    for (const auto& [spoil, says] : wrongs) {
      const auto said = verdict_under(suite, c, spoil);
      EXPECT_NE(said.find(says), std::string::npos) << name << ": " << said << ", and not " << says;
    }
  }
}

}  // namespace
}  // namespace lockstep::suites
