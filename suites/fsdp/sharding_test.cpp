// SPDX-License-Identifier: Apache-2.0
// Cases of the suite `fsdp`: their text, what is drawn, what is simpler, and that the law tells right from
// wrong.
#include "suites/fsdp/sharding.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/fault.h"
#include "suites/fsdp/microbatches.h"
#include "suites/fsdp/predicted_step.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// Catches: an option that a token loses or takes for another.
TEST(Sharding, TokensAreShardings) {
  for (int64_t i = 0; i < 2000; ++i) {
    const auto c = fsdp_case(3, i);
    const auto read = oracle::parse_token(oracle::to_token(c));
    EXPECT_EQ(read, c);
    EXPECT_EQ(case_of(sharding_of(read)), c);
  }
  const auto c = oracle::parse_token(
      "v2:fsdp;mesh=dp:2,fsdp:3;seed=5;dev=1x256;options=batch:1,each:1,"
      "model:4-L7.t.l4.r-n,passes:2,wrap:1#"
      "419b255c");
  EXPECT_EQ(model_text(sharding_of(c)), "4-L7.t.l4.r-n");
  EXPECT_EQ(sharding_of(c).blocks[0][2], (LayerSpec{'l', 4}));
}

// Catches: a feature that no case has any more.
TEST(Sharding, EachOptionIsDrawn) {
  std::map<std::string, std::set<std::string>> drawn;
  std::set<char> layers;
  std::map<std::string, int> meshes;
  for (int64_t i = 0; i < 500; ++i) {
    const auto c = fsdp_case(0, i);
    const auto s = sharding_of(c);
    for (const auto& [name, value] : c.options) drawn[name].insert(value);
    for (const auto& block : s.blocks)
      for (const auto& layer : block) layers.insert(layer.kind);
    for (const auto& name : s.mesh.names()) ++meshes[name];
    meshes["predicted"] += is_predicted(s);
    meshes["in microbatches"] += has_microbatches(s);
    meshes["ranks"] = std::max(meshes["ranks"], static_cast<int>(s.mesh.size()));
  }
  for (const auto* name :
       {"among",     "batch",    "calls",     "clip",         "dtype", "each",         "factor",
        "frozen",    "gathered", "model",     "optimizer",    "order", "output_dtype", "param_dtype",
        "passes",    "prefetch", "recompute", "reduce_dtype", "rows",  "steps",        "by_hand",
        "evaluates", "kept",     "sides",     "tied",         "thaws", "pretrained",   "frozen_first",
        "wrap",      "ignored",  "placed",    "unused",       "nested"})
    EXPECT_FALSE(drawn[name].empty()) << name;
  EXPECT_EQ(layers.size(), 7u);
  EXPECT_EQ(drawn["dtype"].size(), 3u);
  EXPECT_EQ(drawn["order"].size(), 3u);
  EXPECT_EQ(drawn["by_hand"].size(), 2u);
  for (const auto* name : {"fsdp", "dp", "dp_replicate", "tp", "predicted", "in microbatches"})
    EXPECT_GT(meshes[name], 20) << name;
  EXPECT_GE(meshes["ranks"], 8);
}

// Each step of the shrinker leads to another case of the suite, and there is no way back.
TEST(Sharding, SimplerOnesAreCasesAndEnd) {
  for (int64_t i = 0; i < 20; ++i) {
    auto c = fsdp_case(1, i);
    int steps = 0;
    for (auto next = simpler_fsdp(c); !next.empty(); next = simpler_fsdp(c)) {
      for (const auto& s : next) EXPECT_NO_THROW(check_fsdp(s));
      c = next[static_cast<size_t>(i) % next.size()];
      ASSERT_LT(++steps, 400);
    }
    EXPECT_EQ(sharding_of(c).mesh.size(), 1);
    EXPECT_EQ(sharding_of(c).blocks.size(), 1u);
  }
}

std::string error_of(const std::map<std::string, std::string>& options, const char* mesh = "fsdp:2") {
  oracle::Case c;
  c.suite = "fsdp";
  c.mesh = parse_mesh(mesh);
  c.options = options;
  try {
    check_fsdp(c);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Sharding, WhatIsNoCaseSaysWhy) {
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  EXPECT_EQ(error_of({}), "");
  says(error_of({{"batc", "2"}}), "no option 'batc'; there are: among");
  says(error_of({{"batch", "0"}}), "from 1 to 8");
  says(error_of({{"batch", "two"}}), "from 1 to 8, not two");
  says(error_of({{"model", "4-x"}}), "no layer 'x'");
  says(error_of({{"model", "4-t"}}), "no linear layer");
  says(error_of({{"model", "4-L5.r"}}), "r stands where");
  says(error_of({{"model", "4-t9"}}), "has no size");
  says(error_of({{"model", "4"}}), "1 to 8 blocks");
  says(error_of({{"dtype", "i64"}}), "no gradients");
  says(error_of({{"order", "up"}}), "write default");
  says(error_of({{"tied", "1"}, {"model", "4-L5.L4"}}), "no two matrices");
  says(error_of({{"calls", "2"}, {"recompute", "1"}}), "does not run again");
  says(error_of({{"ignored", "1"}, {"param_dtype", "bf16"}}), "in another dtype");
  says(error_of({{"frozen", "1"}, {"model", "4-l3"}}), "only parameter");
  says(error_of({{"optimizer", "sgd-fused"}, {"dtype", "f16"}}), "no parameters of 16 bits");
  says(error_of({}, "dp:2"), "no dimension fsdp");
  says(error_of({}, "fsdp:2,pp:2"), "'pp'");
  says(error_of({}, "fsdp:17"), "too many");
}

// Catches: a law that no mistake breaks, or that the clean engine breaks.
TEST(Sharding, TheLawTellsRightFromWrong) {
  LockstepEngine clean;
  for (int64_t i = 0; i < 60; ++i) {
    const auto c = fsdp_case(11, i);
    EXPECT_TRUE(std::holds_alternative<Passed>(judge_fsdp(c, clean))) << oracle::to_token(c);
  }
  for (const auto& fault : faults()) {
    if (std::string_view(fault.suite) != "fsdp") continue;
    const auto engine = fault.plant();
    bool found = false;
    for (int64_t i = 0; i < fault.cases && !found; ++i) {
      const auto c = fsdp_case(11, i);
      found = fault.touches(c) && !std::holds_alternative<Passed>(judge_fsdp(c, *engine));
    }
    EXPECT_TRUE(found) << fault.name;
  }
}

}  // namespace
}  // namespace lockstep::suites
