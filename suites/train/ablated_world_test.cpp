// SPDX-License-Identifier: Apache-2.0
// What parts of a training are worth is measured on steps that do the same without them.
#include "suites/train/ablated_world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/testing_conformance.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

// Catches: a copy of the first of several pieces for all of them, one that arrives elsewhere, a collective
// that the World within does not see.
TEST(AblatedWorlds, Conform) {
  for (const auto& mesh : {DeviceMesh({1}), DeviceMesh({4}), DeviceMesh({2, 3})}) {
    EXPECT_EQ(world_conformance(packing(local_world(mesh.size())), mesh), "") << to_string(mesh);
    EXPECT_EQ(world_conformance(waiting(local_world(mesh.size())), mesh), "") << to_string(mesh);
  }
}

// Catches: work that only seems to have ended, which whoever waits later would end.
TEST(AblatedWorlds, NothingIsInFlightWhereTheyWait) {
  const auto world = waiting(local_world(2));
  const Comm comm{DeviceMesh({2}), world};
  const PerRank<at::Tensor> sent{at::full({3}, 1.5), at::full({3}, 2.5)};
  PerRank<at::Tensor> got(2);
  auto work =
      all_gather(*world, comm.whole, sent, [&](size_t i, const at::Tensor& t) { got[i] = t.clone(); });
  EXPECT_TRUE(got[0].defined() && got[1].defined());
  work.wait();
}

// Keeps the memory that the World within is given to send.
class Watching : public World {
 public:
  explicit Watching(WorldPtr world) : World(*world), world_(std::move(world)) {}
  Work exchange(Exchange asked) override {
    for (const auto& part : asked.parts)
      for (const auto& parcel : part.sent) sent.push_back(parcel.slab.const_data_ptr());
    return world_->exchange(std::move(asked));
  }
  std::vector<const char*> sent;

 private:
  WorldPtr world_;
};

// Catches: a World that only says that it packs; a copy for each rank that gets the same.
TEST(AblatedWorlds, PackOnceWhatEachRankSends) {
  const auto within = std::make_shared<Watching>(local_world(3));
  const auto world = packing(within);
  const Comm comm{DeviceMesh({3}), world};
  PerRank<at::Tensor> sent;
  for (int64_t r = 0; r < 3; ++r) sent.push_back(at::full({5}, r));
  PerRank<at::Tensor> got(3);
  all_gather(*world, comm.whole, sent, [&](size_t i, const at::Tensor& t) { got[i] = t.clone(); }).wait();
  ASSERT_EQ(within->sent.size(), 9u);
  for (size_t k = 0; k < 9; ++k) {
    EXPECT_EQ(within->sent[k], within->sent[k / 3 * 3]);
    EXPECT_NE(within->sent[k], sent[k / 3].const_data_ptr());
  }
}

TrainOptions on(const char* mesh, Without without) {
  TrainOptions options;
  options.steps = 3;
  options.batch = 4;
  options.sequence = 16;
  options.optimizer = OptimizerKind::kAdamW8bit;
  options.mesh = parse_mesh(mesh);
  options.without = without;
  return options;
}

// Catches: an ablation of which the step is another: other bits where only copies are added, a step that no
// order of reductions explains where ranks share tiles.
TEST(Without, AStepIsTheSameWhateverIsLeftOut) {
  const auto text = read_text("", 16);
  const auto whole = train(on("fsdp:4", Without::kNothing), text);
  for (const auto without : {Without::kDBuffer, Without::kOverlap})
    EXPECT_EQ(train(on("fsdp:4", without), text).back().chain, whole.back().chain) << name(without);
  const auto options = on("fsdp:4", Without::kPlanning);
  TrainObserver observer;
  observer.wants_state = [](int64_t) { return true; };
  observer.on_state = [&](const TrainState& before, const TrainStep& step) {
    const auto judged = judge_step(options, text, before, step);
    EXPECT_LE(judged.verdict, dashboard::Verdict::kExplainedOverflow) << judged.text;
  };
  train(options, text, observer);
}

// Whether a rank begins within a tile of 32 rows.
bool shares_tiles(const at::Tensor& matrix) {
  const auto& units = std::get<RaggedShard>(placements(matrix).at(0)).units;
  const int64_t all = std::accumulate(units.begin(), units.end(), int64_t{0});
  int64_t before = 0;
  for (const int64_t mine : units) {
    before += mine;
    if (before < all && before * (matrix.numel() / all) % (32 * matrix.size(1)) != 0) return true;
  }
  return false;
}

// Catches: parameters that are in another World than the one that saves them.
TEST(Without, WhatItTrainsIsSaved) {
  const auto folder = std::filesystem::temp_directory_path() / concat("lockstep-without-test-", getpid());
  for (const auto without : {Without::kDBuffer, Without::kOverlap}) {
    auto options = on("fsdp:4", without);
    options.world = local_world(4);
    options.save = folder.string();
    EXPECT_EQ(train(options, read_text("", 16)).size(), 3u) << name(without);
  }
  std::filesystem::remove_all(folder);
}

// Catches: blocks that are planned all the same, so that there is nothing to measure.
TEST(Without, PlanningRanksShareTiles) {
  for (const auto without : {Without::kNothing, Without::kPlanning}) {
    const Trainer trainer(on("fsdp:4", without));
    const auto parameters = trainer.model().parameters();
    const bool any = std::any_of(parameters.begin(), parameters.end(),
                                 [](const at::Tensor& p) { return p.dim() == 2 && shares_tiles(p); });
    EXPECT_EQ(any, without == Without::kPlanning) << name(without);
  }
}

}  // namespace
}  // namespace lockstep::suites
