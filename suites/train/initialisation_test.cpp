// SPDX-License-Identifier: Apache-2.0
// First values in shards against one device: what differs is counted, and nothing differs by the single
// device's policy.
#include "suites/train/initialisation.h"

#include <gtest/gtest.h>

#include <span>

#include "engine/values/error.h"
#include "suites/train/llama.h"

namespace lockstep::suites {
namespace {

InitOptions options_for(const char* preset, const char* mesh, std::vector<RandomPolicy> policies) {
  InitOptions options;
  options.preset = preset;
  options.mesh = parse_mesh(mesh);
  options.policies = std::move(policies);
  options.seed = 5;
  return options;
}

int64_t model_elements(const char* preset) {
  int64_t elements = 0;
  for (const auto& [path, parameter] : Llama(llama_preset(preset)).named_parameters())
    if (path.find("norm") == std::string::npos) elements += parameter.numel();
  return elements;
}

// Catches: local shapes in place of global ones, a rank that needs the others, an element counted for each
// replica or not at all; on even and uneven cuts, alone and beside data parallelism, in every floating dtype.
TEST(Initialisation, ShardsHoldTheSingleDevicesValues) {
  for (const char* preset : {"tiny", "odd"})
    for (const char* mesh :
         {"tp:1", "tp:8", "dp:2,tp:3", "dp:2", "fsdp:3", "dp_replicate:2,fsdp:2", "fsdp:2,tp:3"})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(std::string(preset) + " on " + mesh);
        auto options = options_for(preset, mesh, {});
        options.dtype = dtype;
        options.device = {3, 256};
        const auto report = initialise(options);
        EXPECT_TRUE(report.passed());
        EXPECT_EQ(report.parameters, 21);
        EXPECT_EQ(report.drawn, 16);
        EXPECT_EQ(report.policies[0].elements, model_elements(preset));
        EXPECT_EQ(report.reference.elements, model_elements(preset));
        EXPECT_EQ(report.policies[0].different, 0);
        ASSERT_EQ(report.ranks.size(), static_cast<size_t>(options.mesh.size()));
        for (const auto& rank : report.ranks) EXPECT_EQ(rank.different, std::vector<std::string>());
      }
}

// Catches: a table that is drawn anew as the head, or counted twice; zeros of biases that are taken for
// random numbers which ranks repeat; heads of the other thirds of one linear.
TEST(Initialisation, WhatIsSharedIsDrawnOnce) {
  for (const char* mesh : {"tp:2", "sp:2,tp:4", "fsdp:2,tp:3"}) {
    SCOPED_TRACE(mesh);
    auto options = options_for("odd", mesh, {RandomPolicy::kOffsetBased});
    options.model = "gpt2";
    const auto report = initialise(options);
    EXPECT_TRUE(report.passed());
    EXPECT_EQ(report.parameters, 4 + 2 * 12);
    EXPECT_EQ(report.drawn, 2 + 2 * 4);
    EXPECT_EQ(report.policies[0].repeated, 0);
    EXPECT_GT(report.policies[1].different, report.policies[1].elements / 4);
  }
}

// A rank alone holds its shards and buffers, and at most one tensor more while that is drawn or computed.
// Catches: a whole parameter made before it is cut.
TEST(Initialisation, ARankAloneNeedsTheMemoryOfItsShards) {
  const auto report = initialise(options_for("tiny", "tp:8", {}));
  const auto whole = model_elements("tiny") * 4;
  constexpr int64_t kLargest = 128 * 128 * 4;  // the attention mask
  for (const auto& rank : report.ranks) {
    EXPECT_LT(rank.bytes, whole / 7) << rank.rank;
    EXPECT_LE(rank.peak_bytes, rank.bytes + rank.buffer_bytes + kLargest) << rank.rank;
  }
}

// Catches: a comparison that finds nothing, policies that are not applied, shards told apart that hold the
// same bits.
TEST(Initialisation, BaselinesDiffer) {
  const auto report = initialise(options_for(
      "tiny", "tp:4", {RandomPolicy::kPerRankSeeds, RandomPolicy::kOffsetBased, RandomPolicy::kIndexed}));
  EXPECT_TRUE(report.passed());  // nothing is asked of a baseline
  ASSERT_EQ(report.policies.size(), 4u);
  EXPECT_EQ(report.policies[0].different, 0);
  for (const auto& s : std::span(report.policies).subspan(1)) {
    EXPECT_EQ(s.elements, report.reference.elements) << s.policy;
    EXPECT_GT(s.different, s.elements / 2) << s.policy;
    EXPECT_GT(s.largest, s.deviation) << s.policy;
    EXPECT_NEAR(s.deviation, report.reference.deviation, 0.02) << s.policy;
    EXPECT_EQ(s.shards, 64) << s.policy;
  }
}

// Catches: names that are passed over.
TEST(Initialisation, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(initialise(options_for("huge", "tp:2", {})), Error);
  EXPECT_THROW(initialise(options_for("tiny", "pp:2", {})), Error);
}

}  // namespace
}  // namespace lockstep::suites
