// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch.
#include "suites/fsdp/model_table.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

int64_t numel(const ModelTable& model) {
  int64_t n = 0;
  for (const auto& group : model.groups) n += group.count * numel(group);
  return n;
}

double padding(const char* model, int64_t rows, int64_t ranks) {
  return plan_model(find_model(model), {rows}, {.shards = ranks}).padding;
}

// The published sizes. Catches: a parameter that is missing, or of another shape, a layer too many.
TEST(ModelTable, HasEveryParameter) {
  const std::map<std::string, int64_t> published = {{"llama3-8b", 8030261248},
                                                    {"llama3-70b", 70553706496},
                                                    {"mixtral-8x7b", 46702792704},
                                                    {"deepseek-v3", 671026419200},
                                                    {"gpt-oss-120b", 116829156672}};
  for (const auto& model : model_tables()) EXPECT_EQ(numel(model), published.at(model.name)) << model.name;
  EXPECT_EQ(std::ssize(published), std::ssize(model_tables()));
  EXPECT_THROW(find_model("llama"), Error);
}

// Catches: rows of another dimension than the last, blocks of what is cut anywhere, experts that count as
// dense.
TEST(ModelTable, BlocksAreRowsOfTheExperts) {
  const auto blocks = [](const char* model, const char* group, const char* tensor, Coarse coarse) {
    const auto& table = find_model(model);
    for (const auto& g : table.groups)
      for (size_t i = 0; i < g.tensors.size(); ++i)
        if (g.name == group && g.tensors[i].name == tensor) return blocks_of(table, g, coarse)[i];
    return fsdp::BlockTensor{};
  };
  const auto granularity = [&](const char* model, const char* group, const char* tensor, Coarse coarse) {
    return blocks(model, group, tensor, coarse).granularity;
  };
  EXPECT_EQ(granularity("llama3-8b", "layer", "down", {16}), 16 * 14336);
  EXPECT_EQ(granularity("llama3-8b", "layer", "q", {16}), 1);
  EXPECT_EQ(granularity("mixtral-8x7b", "layer", "experts.7.gate", {128}), 128 * 4096);
  EXPECT_EQ(granularity("gpt-oss-120b", "layer", "gate_up", {128}), 128 * 5760);
  EXPECT_EQ(granularity("gpt-oss-120b", "layer", "gate_up_bias", {128}), 1);
  EXPECT_EQ(granularity("deepseek-v3", "layer", "shared.up", {2}), 2 * 7168);
  EXPECT_EQ(granularity("deepseek-v3", "dense layer", "up", {2}), 1);
  EXPECT_EQ(granularity("deepseek-v3", "dense layer", "up", {2, true}), 2 * 7168);
  // Tiles are rows, and begin anew in each of the matrices of a tensor.
  const Coarse tiles{128, false, true};
  EXPECT_EQ(blocks("gpt-oss-120b", "layer", "down", tiles),
            (fsdp::BlockTensor{128 * 2880 * 2880, 128 * 2880, 2880 * 2880}));
  EXPECT_EQ(blocks("gpt-oss-120b", "layer", "down_bias", tiles).period, 0);
  EXPECT_EQ(blocks("mixtral-8x7b", "layer", "experts.7.gate", tiles),
            (fsdp::BlockTensor{14336 * 4096, 128 * 4096, 0}));
}

// What is promised of real models, from 8 to 1,024 ranks. Catches: a planner that pads more, a bound that is
// none.
TEST(ModelTable, PaddingIsWhatWasPromised) {
  for (int64_t ranks = 8; ranks <= 1024; ranks *= 2) {
    for (const int64_t rows : {1, 16}) {
      EXPECT_LT(padding("deepseek-v3", rows, ranks), 0.01) << rows << " rows, " << ranks;
      EXPECT_LT(padding("gpt-oss-120b", rows, ranks), 0.03) << rows << " rows, " << ranks;
    }
    if (ranks <= 512) {
      EXPECT_LT(padding("deepseek-v3", 128, ranks), 0.03) << ranks;
    }
    EXPECT_LE(padding("gpt-oss-120b", 128, ranks), 0.18) << ranks;
    for (const auto& model : model_tables()) {
      const auto made = plan_model(model, {128}, {.shards = ranks});
      EXPECT_LE(made.least_padding, made.padding) << model.name << ", " << ranks;
      for (const auto& g : made.groups) {
        EXPECT_GE(g.plan.shard_size, g.least_shard_size) << model.name;
        EXPECT_TRUE(g.plan.is_least) << model.name << ", " << ranks;
      }
    }
  }
}

// Catches: a remedy that does not help, or a smaller one than there is.
TEST(ModelTable, SaysWhatIsTooCoarse) {
  const auto& model = find_model("llama3-8b");
  const fsdp::PlanOptions options{.shards = 1024};
  const auto said = too_coarse(model, model.groups[0], {128}, options);
  EXPECT_EQ(said.tensor, "down");
  const auto with = [&](int64_t rows) { return plan_model(model, {rows}, options).groups[0].padding(); };
  EXPECT_LE(with(said.rows), kMostPadding);
  for (int64_t rows = said.rows + 1; rows <= 128; ++rows) EXPECT_GT(with(rows), kMostPadding) << rows;
}

}  // namespace
}  // namespace lockstep::suites
