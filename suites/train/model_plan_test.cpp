// SPDX-License-Identifier: Apache-2.0
// Each model under its plan on each kind of mesh: values, gradients, training steps, where its parameters
// are.
#include "suites/train/model_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/plan/parallelize.h"
#include "engine/random/random.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kBatch = 8, kSequence = 16;

ModelOptions small(const char* model, const char* preset) {
  auto options = model_preset(model, preset);
  options.max_sequence = kSequence;
  options.dtype = at::kDouble;
  return options;
}

struct Result {
  at::Tensor loss;
  nn::Named<at::Tensor> gradients;
};

Result run_plain(const ModelOptions& options, const Batch& batch) {
  ClosedFormSource source;
  const RandomScope scope(source);
  manual_seed(0);
  const auto model = make_model(options);
  nn::reset_parameters(*model);
  const auto loss = (*model)(batch.tokens, batch.targets);
  loss.backward();
  Result result{loss.detach(), {}};
  for (const auto& [path, parameter] : model->named_parameters())
    result.gradients.emplace_back(path, parameter.grad());
  return result;
}

Result run_on(const DeviceMesh& shape, const ModelOptions& options, const Batch& batch) {
  const auto mesh = init_device_mesh(shape.shape(), shape.names());
  manual_seed(0);
  const auto model = make_model(options);
  parallelize_model(*model, options, mesh);
  nn::reset_parameters(*model);
  const auto cut = batch_placements(shape);
  const auto loss =
      (*model)(distribute_tensor(batch.tokens, mesh, cut), distribute_tensor(batch.targets, mesh, cut));
  loss.backward();
  Result result{full_tensor(loss.detach()), {}};
  for (const auto& [path, parameter] : model->named_parameters()) {
    EXPECT_EQ(placements(parameter), placements(parameter.grad())) << path;
    result.gradients.emplace_back(path, full_tensor(parameter.grad()));
  }
  return result;
}

struct Row {
  const char* model;
  std::vector<const char*> meshes;
};
const std::vector<const char*> kDense = {
    "tp:1",      "tp:2",        "tp:3",        "tp:4",
    "tp:8",      "sp:2",        "sp:3",        "sp:1,tp:2",
    "sp:2,tp:3", "dp:2",        "fsdp:2",      "dp:2,tp:2",
    "tp:2,dp:4", "fsdp:2,tp:2", "fsdp:2,sp:2", "dp_replicate:2,fsdp:2,sp:2,tp:2"};
const Row kRows[] = {{"llama", kDense},
                     {"gpt2", kDense},
                     {"mixtral",
                      {"tp:2", "tp:3", "sp:2", "sp:1,tp:2", "fsdp:2", "ep:2", "fsdp:2,tp:2", "fsdp:2,ep:2",
                       "sp:2,ep:2", "fsdp:2,ep:2,tp:2", "fsdp:2,sp:2,ep:2,tp:2", "dp:2,tp:2", "fsdp:2,sp:2",
                       "dp_replicate:2,fsdp:2,tp:2", "dp_replicate:2,fsdp:2,sp:2,tp:2"}}};

// The same global loss and gradients on every mesh, in double, up to the order of sums: dropout masks and
// first values are the single device's, so a wrong shard, a lost term or a double reduction is a difference
// of the first digits.
TEST(ModelPlan, IsTheSameOnEveryMesh) {
  const auto text = read_text("", kSequence);
  const auto batch = make_batch(text, 0, 1, kBatch, kSequence);
  for (const auto& row : kRows)
    for (const char* preset : {"tiny", "odd"}) {
      const auto options = small(row.model, preset);
      const auto expected = run_plain(options, batch);
      for (const char* mesh : row.meshes) {
        SCOPED_TRACE(std::string(row.model) + " " + preset + " on " + mesh);
        const auto actual = run_on(parse_mesh(mesh), options, batch);
        EXPECT_NEAR(actual.loss.item<double>(), expected.loss.item<double>(), 1e-12);
        for (size_t i = 0; i < expected.gradients.size(); ++i) {
          const auto difference =
              (actual.gradients[i].second - expected.gradients[i].second).abs().max().item<double>();
          EXPECT_LT(difference, 1e-12) << expected.gradients[i].first;
        }
      }
    }
}

// Catches: a plan that changes what one rank computes.
TEST(ModelPlan, IsBitwiseOnAWorldOfOne) {
  const auto batch = make_batch(read_text("", kSequence), 0, 1, 2, kSequence);
  for (const auto& row : kRows)
    for (const char* mesh : {"tp:1", "sp:1", "fsdp:1", "fsdp:1,sp:1,tp:1"}) {
      SCOPED_TRACE(std::string(row.model) + " on " + mesh);
      const auto options = small(row.model, "tiny");
      const auto expected = run_plain(options, batch), actual = run_on(parse_mesh(mesh), options, batch);
      EXPECT_TRUE(at::equal(expected.loss, actual.loss));
      for (size_t i = 0; i < expected.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(expected.gradients[i].second, actual.gradients[i].second))
            << expected.gradients[i].first;
    }
}

// In single precision, with the update. Catches: a step that no order of reductions explains, on one device
// a head that is no longer the table when a state is loaded.
TEST(ModelPlan, EveryStepIsExplained) {
  const auto text = read_text("", kSequence);
  for (const auto& row : kRows)
    for (const char* mesh : row.meshes) {
      SCOPED_TRACE(std::string(row.model) + " on " + mesh);
      TrainOptions options;
      options.model = row.model;
      options.steps = 1;
      options.batch = kBatch;
      options.sequence = kSequence;
      options.mesh = parse_mesh(mesh);
      TrainObserver observer;
      observer.wants_state = [](int64_t) { return true; };
      observer.on_state = [&](const TrainState& before, const TrainStep& step) {
        const auto judgement = judge_step(options, text, before, step);
        EXPECT_LT(judgement.verdict, dashboard::Verdict::kExpectedException) << judgement.text;
      };
      train(options, text, observer);
    }
}

// Catches: a plan that leaves vocabulary, linears or heads whole, silently; one that cuts along sp what it
// only reads there; rows of layers that a model without any does not have.
TEST(ModelPlan, CutsWhatItSays) {
  const auto of = [](const char* model_name, const DeviceMesh& shape) {
    const auto options = small(model_name, "tiny");
    auto model = make_model(options);
    parallelize_model(*model, options, init_device_mesh(shape.shape(), shape.names()));
    return model;
  };
  const auto placed = [](const LanguageModel& model, const char* path) {
    return to_string(placements(model.parameter(path)));
  };
  const auto llama = of("llama", parse_mesh("dp:2,tp:4"));
  EXPECT_EQ(placed(*llama, "embed_tokens.weight"), "[R,S0]");
  EXPECT_EQ(placed(*llama, "layers.1.self_attn.k_proj.weight"), "[R,S0]");
  EXPECT_EQ(placed(*llama, "layers.1.self_attn.o_proj.weight"), "[R,S1]");
  EXPECT_EQ(placed(*llama, "layers.0.mlp.up_proj.weight"), "[R,S0]");
  EXPECT_EQ(placed(*llama, "layers.0.mlp.down_proj.weight"), "[R,S1]");
  EXPECT_EQ(placed(*llama, "layers.0.input_layernorm.weight"), "[R,R]");
  EXPECT_EQ(placed(*llama, "lm_head.weight"), "[R,S0]");
  EXPECT_EQ(to_string(placements(llama->buffer("loss.classes"))), "[R,S0]");
  EXPECT_EQ(local_tensors(llama->parameter("lm_head.weight")).at(3).size(0), 257 - 3 * 65);
  const auto gpt2 = of("gpt2", parse_mesh("sp:2,tp:4"));
  EXPECT_EQ(placed(*gpt2, "wte.weight"), "[R,S0]");
  EXPECT_TRUE(gpt2->parameter("lm_head.weight").is_same(gpt2->parameter("wte.weight")));
  EXPECT_EQ(placed(*gpt2, "wpe.weight"), "[R,R]");
  EXPECT_EQ(placed(*gpt2, "h.0.attn.c_attn.weight"), "[R,I0x3]");
  EXPECT_EQ(placed(*gpt2, "h.1.attn.c_attn.bias"), "[R,I0x3]");
  EXPECT_EQ(placed(*gpt2, "h.1.attn.c_proj.weight"), "[R,S1]");
  EXPECT_EQ(placed(*gpt2, "h.1.attn.c_proj.bias"), "[R,R]");
  EXPECT_EQ(placed(*gpt2, "h.0.mlp.c_fc.bias"), "[R,S0]");
  const auto mixtral = of("mixtral", parse_mesh("ep:2,tp:4"));
  EXPECT_EQ(placed(*mixtral, "layers.0.self_attn.q_proj.weight"), "[R,S0]");
  EXPECT_EQ(placed(*mixtral, "layers.0.mlp.experts.up_proj"), "[S0,R]");
  for (const auto& row : kRows) {
    auto options = small(row.model, "tiny");
    options.layers = 0;
    const auto model = make_model(options);
    parallelize_model(*model, options, init_device_mesh({1, 1, 2}, {"fsdp", "sp", "tp"}));
    EXPECT_FALSE(model->hooks().empty()) << row.model;
  }
}

}  // namespace
}  // namespace lockstep::suites
