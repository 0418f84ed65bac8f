// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch. Real processes, good and bad.
#include "suites/engines/process_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "generators/cases/programs.h"
#include "suites/core/suite.h"
#include "suites/engines/make_engine.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using Kind = EngineFailure::Kind;

oracle::Case negation() {
  oracle::Case c;
  c.suite = "layout";  // a suite that lets the engine's exceptions through
  c.program.inputs = {{at::kFloat, {4}, {}, {oracle::ValueKind::kNormal, 7, 0, 0, {}}, false}};
  c.program.calls = {{"aten::neg", {oracle::Ref{0}}, 1}};
  c.mesh = DeviceMesh({2});
  c.placements = {{{Replicate{}}, {}}};
  return c;
}

// Catches: a value, an offset, a digest or an argument that the wire changes or loses: then a proof fails, or
// a verdict is another.
TEST(ProcessEngine, GivesTheVerdictsOfTheSameEngineInThisProcess) {
  const auto own = make_engine("lockstep"), other = make_engine(LOCKSTEP_GOOD_PEER);
  int64_t explained = 0;
  for (const auto& suite : suites()) {
    if (!other->profile().has(suite.needs)) continue;
    for (int64_t i = 0; i < 40; ++i) {
      const auto c = suite.generate(5, i);
      const auto a = judge_safely(suite, c, *own), b = judge_safely(suite, c, *other);
      if (const auto* gave_up = std::get_if<GaveUp>(&b);
          gave_up != nullptr && gave_up->refusal.reason.starts_with(kLeftOut)) {
        EXPECT_EQ(c.suite + ", " + gave_up->refusal.reason, "grid, left out: closed form");
        continue;
      }
      if (const auto* gave_up = std::get_if<GaveUp>(&a)) {
        const auto& refusal = std::get<GaveUp>(b).refusal;
        EXPECT_EQ(refusal.op + ", " + refusal.reason, gave_up->refusal.op + ", " + gave_up->refusal.reason);
      }
      EXPECT_EQ(verdict_of(a), verdict_of(b)) << oracle::to_token(c) << explanation_of(b);
      EXPECT_EQ(explanation_of(a), explanation_of(b));
      explained += verdict_of(b) != dashboard::Verdict::kEqual && std::holds_alternative<Passed>(b);
    }
  }
  EXPECT_GT(explained, 5);
}

// Catches: a Program that arrives as another one.
TEST(ProcessEngine, ACaseArrivesAsItWasSent) {
  const auto without_values = [](oracle::Case c) {
    c.suite = "any";
    for (auto& input : c.program.inputs) input.values = {}, input.memory_order = {};
    if (c.program.refused) c.program.calls.push_back(*c.program.refused);  // which no token says
    return c;
  };
  for (const auto* suite : {"program", "gradient", "random", "redistribute"})
    for (uint64_t i = 0; i < 100; ++i) {
      auto c = generators::generate(suite, 3, i);
      if (i % 2 == 0 && !c.program.calls.empty()) c.program.refused = c.program.calls[0];
      const auto inputs = oracle::make_inputs(c);
      const auto given = wire::read_case(wire::write_case(c, inputs));
      EXPECT_EQ(oracle::to_token(without_values(given.c)), oracle::to_token(without_values(c)));
      for (size_t k = 0; k < inputs.size(); ++k) {
        EXPECT_EQ(given.inputs[k].global.strides(), inputs[k].global.strides());
        EXPECT_TRUE(at::equal(given.inputs[k].global.nan_to_num(), inputs[k].global.nan_to_num()));
      }
    }
}

struct Bad {
  const char* mode;
  Kind kind;
  const char* says;
};

// Catches: an engine that takes the harness along, keeps it waiting, or is believed.
TEST(ProcessEngine, ABadPeerIsAFindingWithItsReason) {
  const std::vector<Bad> peers = {
      {"garbage", Kind::kWire, "no JSON object"},
      {"no-object", Kind::kWire, "no JSON object"},
      {"deep", Kind::kWire, "no JSON object"},
      {"another-id", Kind::kWire, "another request"},
      {"no-type", Kind::kWire, "no type"},
      {"another-type", Kind::kWire, "'poem' is no type"},
      {"errs", Kind::kError, "out of ideas"},
      {"huge-payload", Kind::kWire, "not a number up to"},
      {"negative-payload", Kind::kWire, "not a number up to"},
      {"no-values", Kind::kWire, "answers with 0 values"},
      {"no-list", Kind::kWire, "cannot be read"},
      {"few-bytes", Kind::kWire, "bytes more"},
      {"many-bytes", Kind::kWire, "belong to no tensor"},
      {"huge-shape", Kind::kWire, "has no size"},
      {"negative-shape", Kind::kWire, "has no size"},
      {"no-dtype", Kind::kWire, "cannot be read"},
      {"no-placement", Kind::kWire, "cannot be read"},
      {"few-locals", Kind::kWire, "0 locals"},
      {"bad-timeline", Kind::kWire, "different lengths"},
      {"cut-short", Kind::kDied, "exit code 0"},
      {"dies", Kind::kDied, "signal 6"},
      {"leaves", Kind::kDied, "exit code 5"},
      {"hangs", Kind::kHung, "did not answer"},
      {"drips", Kind::kHung, "did not answer"},
      {"floods", Kind::kWire, "no end within"},
  };
  for (const auto& peer : peers) {
    ProcessEngine engine({LOCKSTEP_BAD_PEER, peer.mode}, 1.5);
    for (int again = 0; again < (peer.kind == Kind::kError ? 1 : 2); ++again) {  // it is started anew
      try {
        engine.run(negation(), true);
        ADD_FAILURE() << peer.mode << " was believed";
      } catch (const EngineFailure& e) {
        const bool slow =
            peer.kind == Kind::kWire && e.kind == Kind::kHung && std::string(peer.mode) == "floods";
        EXPECT_TRUE(e.kind == peer.kind || slow) << peer.mode << ": " << e.what();
        EXPECT_TRUE(slow || std::string(e.what()).find(peer.says) != std::string::npos)
            << peer.mode << ": " << e.what();
      }
    }
  }
}

// Catches: an exception of an engine in a suite that handles none, told as a broken harness.
TEST(ProcessEngine, WhatItDoesIsTheVerdictOfEverySuite) {
  const std::vector<std::pair<const char*, dashboard::Verdict>> peers = {
      {"refuses", dashboard::Verdict::kGaveUp},
      {"errs", dashboard::Verdict::kDifferent},
      {"garbage", dashboard::Verdict::kDifferent},
      {"dies", dashboard::Verdict::kCrashed},
      {"hangs", dashboard::Verdict::kHung}};
  for (const auto* suite : {"layout", "ops"})
    for (const auto& [mode, verdict] : peers) {
      ProcessEngine engine({LOCKSTEP_BAD_PEER, mode}, 1);
      auto c = negation();
      c.suite = suite;
      const auto outcome = judge_safely(find_suite(suite), c, engine);
      EXPECT_EQ(verdict_of(outcome), verdict) << suite << " " << mode << ": " << explanation_of(outcome);
    }
}

// Catches: an engine that cannot begin, told late or not at all.
TEST(ProcessEngine, OneThatDoesNotBeginIsAnErrorAtOnce) {
  for (const auto* mode : {"exits", "mute", "talks", "another-wire", "boasts"})
    EXPECT_THROW(ProcessEngine({LOCKSTEP_BAD_PEER, mode}, 1), Error) << mode;
  EXPECT_THROW(make_engine("/no/such/engine"), Error);
  EXPECT_THROW(make_engine("lockstp"), Error);
}

// Catches: a case that the engine cannot run counted as anything but left out.
TEST(Profile, NamesWhatIsLacking) {
  auto c = negation();
  EngineProfile all{.name = "e", .version = "1"};
  EXPECT_EQ(lacks(all, c), "");
  auto some = all;
  some.placements = {"S"};
  EXPECT_EQ(lacks(some, c), "placement R");
  some = all, some.dtypes = {"bf16"};
  EXPECT_EQ(lacks(some, c), "dtype f32");
  some = all, some.ops = {"aten::add.Tensor"};
  EXPECT_EQ(lacks(some, c), "op aten::neg");
  some = all, some.most_ranks = 1;
  EXPECT_EQ(lacks(some, c), "2 ranks");
  c.program.calls[0] = {"aten::uniform_", {oracle::Ref{0}, 0.0, 1.0, oracle::None{}}, 1};
  EXPECT_EQ(lacks(all, c), "random policy single-device");
  all.random_policies = {"single-device"};
  EXPECT_EQ(lacks(all, c), "");
  all.program = 2, c.words = RandomWords::kOnes;
  EXPECT_EQ(lacks(all, c), "random policy forged-words");
}

}  // namespace
}  // namespace lockstep::suites
