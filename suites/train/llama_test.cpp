// SPDX-License-Identifier: Apache-2.0
// The LLaMA on one device, and its plan beside PyTorch's styles.
#include "suites/train/llama.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/nn/distribute.h"
#include "engine/optim/optimizer.h"
#include "engine/plan/optimize.h"
#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/values/error.h"
#include "suites/train/model_plan.h"
#include "suites/train/text.h"

namespace lockstep::suites {
namespace {

ModelOptions small(const char* preset, double dropout = 0.1) {
  auto options = llama_preset(preset);
  options.max_sequence = 16;
  options.dropout = dropout;
  options.dtype = at::kDouble;
  return options;
}

// Catches: an estimate of memory that forgets a part of the model.
TEST(Llama, ParametersAreCounted) {
  for (const char* preset : {"tiny", "odd"}) {
    int64_t elements = 0;
    for (const auto& [path, parameter] : Llama(small(preset)).named_parameters())
      elements += parameter.numel();
    EXPECT_EQ(parameter_count(llama_preset(preset)), elements) << preset;
  }
  EXPECT_EQ(parameter_count(llama_preset("8b")), 8030261248);
}

// Catches: a parameter that takes no part, a loss that cannot be learned.
TEST(Llama, LearnsOnOneDevice) {
  at::manual_seed(0);
  auto options = small("tiny");
  options.dtype = at::kFloat;
  Llama model(options);
  nn::reset_parameters(model);
  optim::AdamW optimizer(model.parameters());
  const auto text = read_text("", 16);
  double first = 0, last = 0;
  for (int64_t step = 1; step <= 12; ++step) {
    const auto batch = make_batch(text, 0, step, 4, 16);
    optimizer.zero_grad();
    const auto loss = model(batch.tokens, batch.targets);
    loss.backward();
    for (const auto& [path, parameter] : model.named_parameters())
      EXPECT_TRUE(parameter.grad().defined() && parameter.grad().abs().max().item<float>() > 0) << path;
    optimizer.step();
    (step == 1 ? first : last) = loss.item<double>();
  }
  EXPECT_NEAR(first, std::log(257.0), 1.0);
  EXPECT_LT(last, first - 0.5);
}

// PyTorch's styles, module by module: each asks for its input where it wants it.
ParallelPlan by_styles() {
  const std::string attention = "layers\\.\\d+\\.self_attn\\.", mlp = "layers\\.\\d+\\.mlp\\.";
  auto plan = vocabulary_parallel("embed_tokens", "tp", Shard{1});
  plan += sequence_parallel("(layers\\.\\d+\\..*)?norm", "tp");
  plan += colwise_parallel(attention + "[qkv]_proj", "tp");
  plan += prepare_module_input(attention + "core", "tp", {Shard{1}, Shard{1}, Shard{1}});
  plan += rowwise_parallel(attention + "o_proj", "tp", Shard{1});
  plan += colwise_parallel(mlp + "(gate|up)_proj", "tp");
  plan += rowwise_parallel(mlp + "down_proj", "tp", Shard{1});
  plan += colwise_parallel("lm_head", "tp");
  return plan.shard("loss.classes", {Shard{0}}, {"tp"});
}

// Catches: an optimizer that leaves gathers of one tensor three, or breaks what was right.
TEST(Llama, StylesAreOptimizedToWhatOneWritesByHand) {
  const auto options = small("tiny", 0);
  const auto batch = make_batch(read_text("", 16), 0, 1, 4, 16);
  const auto mesh = init_device_mesh({2}, {"tp"});
  struct Step {
    PlanTrace traced;
    at::Tensor loss;
    int64_t moves = 0;
  };
  const auto step_of = [&](const ParallelPlan& plan) {
    manual_seed(0);
    Llama model(options);
    parallelize(model, mesh, plan);
    nn::reset_parameters(model);
    const auto placed = [&](const at::Tensor& t) { return distribute_tensor(t, mesh, {Replicate{}}); };
    Step step;
    step.traced = trace(model, [&] {
      step.loss = model(placed(batch.tokens), placed(batch.targets));
      step.loss.backward();
    });
    for (const auto& move : step.traced.moves) step.moves += !move.came.is_same(move.left);
    return step;
  };
  const auto styles = step_of(by_styles()), by_hand = step_of(model_plan(options, mesh.mesh));
  const auto optimized = step_of(optimize(by_styles(), styles.traced, {.reorders_sums = true}).plan);
  EXPECT_GT(styles.moves, by_hand.moves);
  EXPECT_LE(optimized.moves, by_hand.moves);
  EXPECT_TRUE(at::equal(full_tensor(optimized.loss.detach()), full_tensor(styles.loss.detach())));
}

// Catches: a pattern with a typing error that leaves a model replicated.
TEST(Llama, PatternsThatMatchNothingAreErrors) {
  Llama model(small("tiny"));
  const auto mesh = init_device_mesh({2}, {"tp"});
  const nn::ParameterPlacement misspelt{"layers.*.qproj.weight", parse_placements("[S0]")};
  EXPECT_THROW(nn::distribute_module(model, mesh, {misspelt}), Error);
  EXPECT_THROW(parallelize(model, mesh, parse_plan("layer\\.0.init:weight:shard(S0,tp)")), Error);
  EXPECT_THROW(llama_preset("huge"), Error);
}

}  // namespace
}  // namespace lockstep::suites
