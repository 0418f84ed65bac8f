// SPDX-License-Identifier: Apache-2.0
// A refusal that is due passes, one that is not fails, and what should have been refused and was not fails.
#include "suites/core/refusal.h"

#include <gtest/gtest.h>

#include "engine/values/refused.h"
#include "oracle/program/program.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/wrap.h"

namespace lockstep::suites {
namespace {

Outcome verdict(const char* token, EngineUnderTest& engine) {
  return judge_against_oracle(oracle::parse_token(token), engine, Allowed::kExplained);
}

constexpr const char* kInner =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x5x6]:normal(1)@[S1];v0=aten::view(x0,[120])#a93267a8";
constexpr const char* kOuter =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[S0];v0=aten::view(x0,[24])#137575d3";
constexpr const char* kComposed =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[2x5x6]:normal(1)@[S1];x1=f32[6x3]:normal(1)@[R];"
    "v0=aten::matmul(x0,x1)#2947d37c";
constexpr const char* kWrites =
    "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x6]:normal(1)@[P];v0=aten::exp_(x0)#2bee496d";

constexpr const char* kFlags =
    "v1:ops;mesh=2;seed=0;dev=1x256;x0=bool[6]:integers(62937,0,1)@[S0];v0=aten::slice.Tensor(x0,0,1,3,1)"
    "#63b1a221";
constexpr const char* kDraws =
    "v1:program;mesh=2;seed=0;dev=1x256;x0=f32[4x6]:normal(1)@[P];v0=aten::uniform_(x0,0.0,1.0,none)"
    "#09d4ed02";
constexpr const char* kList =
    "v1:program;mesh=2x2;seed=0;dev=1x256;x0=f32[4x6]:normal(1)@[S0,R];x1=f32[4x6]:normal(2)@[P,R];"
    "x2=f32[4x6]:normal(3)@[R,S1];x3=f32[4x6]:normal(4)@[R,R];"
    "[]=aten::_foreach_mul_.List(t[x0,x1,x2,x3],t[x2,x0,x2,x1])#04532ad2";
constexpr const char* kSaves =
    "v1:gradient;mesh=tp:2;seed=65340;dev=132x2048;x0=f32[6x3x4]:normal(45421)@[S1]!;"
    "x1=f32[4]:normal(41469)@[S0]!;x2=f32[6x3x4]:normal(60583)@[S2];v0=aten::clone(x0,none);"
    "v1=lockstep::redistribute(v0,@[G0.1:9/9]);v2=aten::clamp_min_.Tensor(v1,x1);"
    "[v3,v4]=lockstep::backward(t[v2],t[x2])#f03fd02c";

// Catches: a judge that counts every refusal and asks of none whether it must be; lists that are given up
// because all their items together have too many placements; a clone of libtorch's autograd that is taken for
// something the engine did before it refused.
TEST(Refusal, IsDueWhereNoPlacementsWouldDo) {
  LockstepEngine engine;
  for (const char* token : {kInner, kWrites, kFlags, kDraws, kList, kSaves}) {
    const auto outcome = verdict(token, engine);
    const auto* passed = std::get_if<Passed>(&outcome);
    ASSERT_NE(passed, nullptr) << token << explanation_of(outcome);
    ASSERT_TRUE(passed->refusal.has_value());
    EXPECT_TRUE(passed->refusal->reason.starts_with(kDue)) << passed->refusal->reason;
  }
  const auto outcome = verdict(kOuter, engine);
  ASSERT_TRUE(std::holds_alternative<Passed>(outcome)) << explanation_of(outcome);
  EXPECT_FALSE(std::get<Passed>(outcome).refusal.has_value());
}

// Catches: a refusal that is called undue by chance: a result without elements may lie anywhere, few flags
// are often the same on all ranks, two cuts of which one leaves a single row nest, a flat local of one
// element meets any row, one column has one order, a view of one row is flat, steps meet where pieces begin,
// and the one row that an index of one element names may be the rank's own that has the index.
TEST(Refusal, CannotBeToldOfFewElements) {
  LockstepEngine engine;
  for (const auto* token :
       {"v1:cache;mesh=2;seed=0;dev=1x256;x0=f32[2x2]:ones@[S0];v0=aten::slice.Tensor(x0,0,1,1,3)#e23f336a",
        "v1:ops;mesh=2x2x2;seed=0;dev=1x256;x0=f32[8x2]:normal(1)@[S0,S1,S0];"
        "v0=lockstep::redistribute(x0,@[G0:1/1,S1,S0]);v1=aten::t(v0)#3e8ad1c2",
        "v1:ops;mesh=2;seed=0;dev=1x256;x0=bool[6]:integers(1,0,1)@[S0];"
        "v0=aten::slice.Tensor(x0,0,0,2,1)#d774fd67",
        "v1:ops;mesh=2x4;seed=0;dev=1x256;lane=integer;x0=f64[6x1]:ones@[G0:1/1,R];"
        "v0=aten::expand(x0,[6,4],false)#113199b6",
        "v1:gradient;mesh=2x2x2;seed=0;dev=1x256;x0=f32[5x1]:integers(0,-2,2)@[R,S0,P];"
        "v0=lockstep::redistribute(x0,@[R,G0:2/3,R]);v1=aten::expand(v0,[5,4],false)#72889dbf",
        "v1:program;mesh=5;seed=0;dev=1x256;x0=f32[5x6]:integers(0,-2,2)@[P];"
        "v0=lockstep::redistribute(x0,@[G0:1/1/1/1/1]);[v1,v2]=aten::split.Tensor(v0,4,-1)#9321493c",
        "v1:ops;mesh=1x2;seed=0;dev=1x256;x0=f32[2x3]:integers(0,-2,2)@[R,S1];"
        "v0=aten::slice.Tensor(x0,-1,0,none,2)#b29de344",
        "v1:ops;mesh=2x1;seed=0;dev=1x256;lane=integer;x0=f32[4]:ones@[S0,R];"
        "x1=i64[1]:index(59002,0,6)@[R,G0:1];x2=f32[1]:ones@[R,R];"
        "v0=aten::scatter_add_(x0,0,x1,x2)#2e2081ce",
        "v1:ops;mesh=4;seed=7591;dev=132x2048;lane=integer;x0=f32[4x5]:integers(75311,-3,3)@[G0.1:2/1/2/0];"
        "v0=lockstep::redistribute(x0,@[G0.1:1/1/1/1]);"
        "[v1,v2,v3]=aten::split_with_sizes(v0,[1,1,3],-1)#cb895c16",
        "v1:gradient;mesh=3x2;seed=56806;dev=132x2048;x0=f32[1x4]:ones(78360)@[Pmin,R];"
        "v0=lockstep::redistribute(x0,@[R,G0.1:1/1]);v1=aten::expand(v0,[4,3,4],false)#6f32f605",
        "v1:ops;mesh=3;seed=0;dev=1x256;x0=f32[3x5]:normal(1)@[G0.1:1/1/1];"
        "x1=bool[3x1]:integers(13875,0,1)@[S0];"
        "v0=aten::masked_fill_.Scalar(x0,x1,0.5)#cbeeefa3"}) {
    const auto outcome = verdict(token, engine);
    EXPECT_TRUE(std::holds_alternative<GaveUp>(outcome)) << token << explanation_of(outcome);
  }
}

// Catches: an engine that dies while the judge asks how far it gets, which nobody hears of.
TEST(Refusal, DoesNotHideAnEngineThatDies) {
  class Dies : public LockstepEngine {
    EngineResult run(const oracle::Case& c, bool timeline) override {
      if (c.program.calls.empty()) throw EngineFailure(EngineFailure::Kind::kDied, "signal 9", "it is gone");
      return LockstepEngine::run(c, timeline);
    }
  } dies;
  try {
    const auto outcome = verdict(kInner, dies);
    FAIL() << explanation_of(outcome);
  } catch (const EngineFailure& e) {
    EXPECT_EQ(e.end, "signal 9");
  }
}

Rows none(const OpCall&, Rows) {
  return {};
}
// Catches: an op that lost its rows, so that it refuses what it could do, and is called careful.
TEST(Refusal, IsAFailureWhereTheOpCouldRun) {
  const auto engine = with_rows("aten::view", none)();
  const auto outcome = verdict(kOuter, *engine);
  const auto* failed = std::get_if<Failed>(&outcome);
  ASSERT_NE(failed, nullptr) << explanation_of(outcome);
  EXPECT_EQ(failed->verdict, "refusal");
  EXPECT_NE(failed->explanation.find("f32[4x6]@[S0] -> f32[24]@[S0]"), std::string::npos)
      << failed->explanation;
}

// Of numbers fewer are needed than of flags. Catches: whatever is small called a matter of chance.
TEST(Refusal, CanBeToldOfFewNumbers) {
  const auto engine = with_rows("aten::view", none)();
  for (const char* token :
       {"v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x3]:normal(1)@[S0];v0=aten::view(x0,[12])#bc4a2a3f",
        "v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4x2]:normal(1)@[S0];v0=aten::view(x0,[8])#bad11d77"}) {
    const auto outcome = verdict(token, *engine);
    const auto* failed = std::get_if<Failed>(&outcome);
    ASSERT_NE(failed, nullptr) << token << explanation_of(outcome);
    EXPECT_EQ(failed->verdict, "refusal");
  }
}

// Catches: a view that a composite op takes of a tensor of its own, and that is refused in the composite's
// name: given up, since the op of the Program and the one that is refused are not the same.
TEST(Refusal, OfWhatACompositeViewsIsNeverDue) {
  struct Strict : LockstepEngine {
    EngineResult run(const oracle::Case& c, bool timeline) override {
      if (!c.program.calls.empty() && c.program.calls[0].op == "aten::matmul")
        throw Refused(Refusal::kView, "aten::view", "f32[2x5x6]@[S1]", "cannot run; ",
                      "redistribute it first");
      return LockstepEngine::run(c, timeline);
    }
  } engine;
  const auto outcome = verdict(kComposed, engine);
  const auto* failed = std::get_if<Failed>(&outcome);
  ASSERT_NE(failed, nullptr) << explanation_of(outcome);
  EXPECT_EQ(failed->verdict, "refusal");
  EXPECT_NE(failed->explanation.find("its own"), std::string::npos) << failed->explanation;
}

// Catches: a judge that asks of placements which a run named that nobody judged.
TEST(Refusal, IsAskedOfTheRunThatIsJudged) {
  class Liar : public EngineUnderTest {
   public:
    const EngineProfile& profile() const override { return engine_->profile(); }
    std::unique_ptr<RandomSource> plain_source() override { return engine_->plain_source(); }
    EngineResult run(const oracle::Case& c, bool timeline) override {
      auto result = engine_->run(c, timeline);
      auto& spec = result.values[0].spec;
      if (!timeline) spec = std::make_shared<const Spec>(spec->with_placements({Shard{1}}));
      return result;
    }

   private:
    EnginePtr engine_ = with_rows("aten::view", none)();
  } liar;
  const auto outcome = verdict(kOuter, liar);
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome)) << explanation_of(outcome);
}

// Catches: an engine that moves or writes before it refuses, so that whoever catches the exception goes on
// with something else, and one that can do no more afterwards.
TEST(Refusal, LeavesEverythingAsItWas) {
  struct Refuser : LockstepEngine {
    enum class Slip { kNothing, kWriting, kMoving, kBreaking } slip = Slip::kNothing;
    EngineResult run(const oracle::Case& c, bool timeline) override {
      auto result = LockstepEngine::run(c, timeline);
      if (!c.program.refused) return result;
      if (slip == Slip::kWriting) result.values[0].locals[1].add_(1);
      if (slip == Slip::kMoving) result.bytes_moved += 8;
      if (slip == Slip::kBreaking) throw std::runtime_error("it has lost its mesh");
      return result;
    }
  } engine;
  for (const char* token : {kInner, kWrites}) {
    engine.slip = Refuser::Slip::kNothing;
    EXPECT_TRUE(std::holds_alternative<Passed>(verdict(token, engine))) << token;
    for (const auto slip : {Refuser::Slip::kWriting, Refuser::Slip::kMoving, Refuser::Slip::kBreaking}) {
      engine.slip = slip;
      EXPECT_TRUE(std::holds_alternative<Failed>(verdict(token, engine))) << token;
    }
  }
}

// The in-place op runs on a tensor that was moved for it, which is then another.
EngineResult moved(EngineResult result) {
  auto& entry = result.timeline.at(0);
  const auto whole = std::make_shared<const Spec>(result.values[0].spec->with_placements({Replicate{}}));
  for (auto* record : {&entry.inputs[0], &entry.outputs[0]}) record->spec = whole;
  return result;
}
// Catches: an engine that writes to a copy of a tensor in other placements, in silence.
TEST(Refusal, WhatMovesWhatItWritesToFails) {
  class Mover : public LockstepEngine {
    EngineResult run(const oracle::Case& c, bool timeline) override {
      return moved(LockstepEngine::run(c, timeline));
    }
  } mover;
  const auto outcome =
      verdict("v1:ops;mesh=2;seed=1;dev=1x256;x0=f32[4]:ones@[S0];v0=aten::zero_(x0)#afe0a58c", mover);
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome)) << explanation_of(outcome);
}

}  // namespace
}  // namespace lockstep::suites
