// SPDX-License-Identifier: Apache-2.0
// The suite `train`: its cases, its second law beside the first, what is told of exceptions, and shrinking.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/harness/examine.h"
#include "suites/laws/laws.h"
#include "suites/laws/train_case.h"
#include "suites/train/formula_judgement.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/train_fault.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

const char* const kFaults[] = {"keys-one-late", "heads-dealt-out", "bias-of-next-step", "decay-coupled"};

class Faulty : public LockstepEngine {
 public:
  explicit Faulty(TrainFault fault) : fault_(fault) {}
  const TrainFault* train_fault() const override { return &fault_; }

 private:
  TrainFault fault_;
};

TrainOptions tiny(const char* mesh, OptimizerKind optimizer = OptimizerKind::kAdamW) {
  auto c = oracle::parse_token(oracle::to_token(train_case(0, 1)));
  c.mesh = parse_mesh(mesh);
  auto options = training_of(c);
  options.optimizer = optimizer;
  options.sizes =
      ModelOptions{.hidden = 12, .layers = 2, .heads = 4, .kv_heads = 2, .mlp = 7, .vocabulary = 11};
  options.sequence = 5;
  return options;
}

dashboard::Verdict worst_step(const TrainOptions& options, const std::string& text) {
  auto worst = dashboard::Verdict::kEqual;
  TrainObserver observer;
  observer.wants_state = [](int64_t) { return true; };
  observer.on_state = [&](const TrainState& before, const TrainStep& step) {
    worst = std::max(worst, judge_step(options, text, before, step).verdict);
  };
  train(options, text, observer);
  return worst;
}

// Catches: a token of an older version that is another case now, an option that a token loses.
TEST(TrainCase, TokensAreTrainings) {
  EXPECT_EQ(oracle::to_token(train_case(7, 3)), "v1:train;mesh=tp:3;seed=7;dev=132x2048#be031c34");
  for (int64_t i = 0; i < train_cases(); ++i) {
    const auto c = train_case(1, i);
    EXPECT_EQ(case_of(training_of(c)), c);
    EXPECT_EQ(c.options.contains("optimizer"), (i >= 6 && i <= 11 && i != 10) || i == 15 || i == 16 ||
                                                   i == 18 || (i >= 20 && i != 26 && i != 27));
    EXPECT_EQ(c.options.contains("dtype"), i == 10 || i == 11 || i == 16);
    EXPECT_EQ(c.options.contains("param_dtype"),
              (i >= 17 && i <= 21 && i != 20) || i == 23 || i == 25 || i == 28);
    EXPECT_EQ(c.options.contains("reduce_dtype"),
              i == 17 || i == 19 || i == 21 || i == 23 || i == 25 || i == 28);
    EXPECT_EQ(c.options.contains("experts"), i >= 26);
    for (const auto* name : {"set_to_none", "weight_decay"})
      EXPECT_EQ(c.options.contains(name), i == 20 || i == 21);
  }
  auto options = tiny("dp:2,tp:2", OptimizerKind::kSgd);
  options.dropout = 0.25;
  const auto back = training_of(oracle::parse_token(oracle::to_token(case_of(options))));
  EXPECT_EQ(back.dropout, 0.25);
  EXPECT_EQ(back.optimizer, OptimizerKind::kSgd);
  EXPECT_EQ(back.sizes->kv_heads, 2);
  EXPECT_EQ(back.sequence, 5);
}

// Catches: a token of no training that ends as a broken harness, a division by no heads, a model that takes
// all memory.
TEST(TrainCase, RefusesWhatIsNoTraining) {
  const auto refuses = [](const char* mesh, std::map<std::string, std::string> options) {
    auto c = train_case(0, 0);
    c.mesh = parse_mesh(mesh);
    c.options = std::move(options);
    EXPECT_THROW(check_case(find_suite("train"), c), Error) << oracle::to_token(c);
  };
  refuses("2x2", {});
  refuses("pp:2", {});
  refuses("dp:4", {{"batch", "2"}});
  refuses("tp:2", {{"heads", "0"}});
  refuses("tp:2", {{"optimizer", "sgd-fused"}, {"dtype", "bf16"}});
  refuses("tp:2", {{"hidden", "17"}});
  refuses("tp:2", {{"hidden", "1048576"}});
  refuses("tp:2", {{"batch", "99999999999"}});
  refuses("tp:2", {{"steps", "1x"}});
  refuses("tp:2", {{"dropout", "2"}});
  refuses("tp:2", {{"optimizer", "lion"}});
  refuses("tp:2", {{"dtype", "i32"}});
  refuses("tp:2", {{"dtype", "f17"}});
  refuses("tp:2", {{"depth", "1"}});
  auto c = train_case(0, 0);
  c.program.calls.push_back({"aten::rand", {}, 1});
  EXPECT_THROW(check_case(find_suite("train"), c), Error);
  auto other = find_suite("ops").generate(0, 0);
  other.options["steps"] = "1";
  EXPECT_THROW(check_case(find_suite("ops"), other), Error);
}

// Catches: shrinking that never ends, that leads to a case which is none, or that leaves a size as it is.
TEST(TrainCase, SimplerOnesEndInTheSmallest) {
  auto c = train_case(5, 7);
  int64_t steps = 0;
  for (auto simpler = simpler_trainings(c); !simpler.empty(); simpler = simpler_trainings(c)) {
    for (const auto& one : simpler) ASSERT_NO_THROW(check_case(find_suite("train"), one));
    c = simpler.back();
    ASSERT_LT(++steps, 2000);
  }
  const auto smallest = training_of(c);
  EXPECT_EQ(parameter_count(model_options(smallest)), 3);
  EXPECT_EQ(smallest.mesh->size(), 1);
  EXPECT_EQ(smallest.steps * smallest.batch * smallest.sequence, 1);
  EXPECT_EQ(smallest.optimizer, OptimizerKind::kSgd);
}

// Odd heads, one head a group, no layers, one token; each optimizer. Catches: a reference that is another
// model than LLaMA's at some size, a bound that roundings exceed or that is far too wide.
TEST(Formulas, HoldAtEverySize) {
  const auto text = read_text("", 16);
  const ModelOptions sizes[] = {
      {.hidden = 12, .layers = 2, .heads = 4, .kv_heads = 2, .mlp = 7, .vocabulary = 11},
      {.hidden = 15, .layers = 1, .heads = 5, .kv_heads = 1, .mlp = 3, .vocabulary = 300},
      {.hidden = 4, .layers = 3, .heads = 4, .kv_heads = 4, .mlp = 1, .vocabulary = 2},
      {.hidden = 1, .layers = 1, .heads = 1, .kv_heads = 1, .mlp = 1, .vocabulary = 1},
      {.hidden = 3, .layers = 0, .heads = 1, .kv_heads = 1, .mlp = 1, .vocabulary = 5},
  };
  for (const auto& size : sizes)
    for (const auto optimizer : kOptimizers)
      for (const int64_t sequence : {1, 6})
        for (const double dropout : {0.0, 0.1}) {
          auto options = tiny("tp:1", optimizer);
          options.sizes = size;
          options.sequence = sequence;
          options.dropout = dropout;
          const auto found = judge_formulas(options, text);
          EXPECT_TRUE(found.holds()) << found.question << ": " << found.text << "\nhidden " << size.hidden
                                     << ", " << name(optimizer) << ", sequence " << sequence;
        }
}

// Each planted fault of the model or its update is on both sides of the first law. Catches: a second law that
// shares what it judges.
TEST(Formulas, FindWhatStandsOnBothSidesOfAMesh) {
  const auto text = read_text("", 16);
  const std::map<std::string, std::string> questions = {{"keys-one-late", "loss"},
                                                        {"heads-dealt-out", "loss"},
                                                        {"bias-of-next-step", "update"},
                                                        {"decay-coupled", "update"}};
  for (const auto* name : kFaults) {
    const auto engine = find_fault(name).plant();
    for (const char* mesh : {"tp:2", "dp:2"}) {
      auto options = tiny(mesh);
      options.fault = engine->train_fault();
      EXPECT_LT(worst_step(options, text), dashboard::Verdict::kExpectedException) << name << " " << mesh;
      const auto found = judge_formulas(options, text);
      EXPECT_EQ(found.question, questions.at(name)) << found.text;
    }
  }
}

// Catches: formulas that are not asked of every optimizer, in every dtype.
TEST(Formulas, FindADecayInEveryDtypeAndOptimizer) {
  const auto text = read_text("", 16);
  const TrainFault no_decay{.options = [](TrainOptions& o) { o.weight_decay = 0; }};
  for (const auto optimizer : kOptimizers)
    for (const auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16}) {
      if (optimizer == OptimizerKind::kFusedSgd && dtype == c10::kBFloat16) continue;  // which is refused
      auto options = tiny("tp:1", optimizer);
      options.dtype = dtype;
      EXPECT_TRUE(judge_formulas(options, text).holds())
          << name(optimizer) << judge_formulas(options, text).text;
      options.fault = &no_decay;
      EXPECT_EQ(judge_formulas(options, text).question, "update") << name(optimizer) << dtype;
    }
}

// Catches: a case of which only one law was asked, and nobody told.
TEST(TrainLaw, TellsOfBothLaws) {
  LockstepEngine engine;
  for (const int64_t index : {0, 6, 7}) {
    auto c = train_case(0, index);
    c.options["layers"] = "1";
    const auto outcome = judge_train(c, engine);
    ASSERT_TRUE(std::holds_alternative<Passed>(outcome)) << explanation_of(outcome);
    EXPECT_NE(explanation_of(outcome).find("formulas: "), std::string::npos) << explanation_of(outcome);
  }
}

// Catches: an exception of the engine that ends as a broken harness: not a failure, not shrunk, not recorded.
TEST(TrainLaw, WhatTheEngineThrowsIsAFailure) {
  const TrainFault faults[] = {
      {.model =
           [](nn::Module& model) {
             model.child("norm").register_forward_pre_hook([](nn::Module&, nn::Tensors& inputs) {
               if (is_dtensor(inputs.at(0))) throw Error("[norm] not today");
             });
           }},
      {.update =
           [](const optim::Tensors& parameters, Optimizer&) {
             if (!is_dtensor(parameters.at(0))) throw std::out_of_range("not today");
           }},
  };
  for (const auto& fault : faults) {
    Faulty engine(fault);
    const auto& suite = find_suite("train");
    const auto c = train_case(0, 2);
    const auto outcome = judge_and_repeat(suite, c, engine);
    const auto* failure = std::get_if<Failed>(&outcome);
    ASSERT_NE(failure, nullptr) << explanation_of(outcome);
    EXPECT_EQ(failure->bucket, "train | exception | - | - | f32");
    EXPECT_NE(failure->explanation.find("not today"), std::string::npos);
    const auto minimal = shrink_failure(suite, c, *failure, engine);
    EXPECT_FALSE(minimal.budget_ended);
    const auto options = training_of(minimal.c);
    EXPECT_EQ(parameter_count(model_options(options)), 3) << oracle::to_token(minimal.c);
    EXPECT_EQ(options.mesh->size(), 1);
    EXPECT_EQ(options.steps, 1);
  }
}

// Catches: a finding that is told as it was met, with all of its layers, ranks and steps.
TEST(TrainLaw, FindingsShrink) {
  const auto engine = find_fault("heads-dealt-out").plant();
  const auto& suite = find_suite("train");
  const auto c = train_case(0, 2);
  const auto outcome = judge_safely(suite, c, *engine);
  const auto* failure = std::get_if<Failed>(&outcome);
  ASSERT_NE(failure, nullptr) << explanation_of(outcome);
  EXPECT_EQ(failure->bucket, "train | loss | - | - | f32");
  const auto minimal = shrink_failure(suite, c, *failure, *engine);
  const auto options = training_of(minimal.c);
  EXPECT_EQ(options.sizes->layers, 1) << oracle::to_token(minimal.c);
  EXPECT_EQ(options.sizes->heads, 4);
  EXPECT_EQ(options.sizes->kv_heads, 2);
  EXPECT_EQ(options.steps, 1);
  EXPECT_EQ(options.mesh->size(), 1);
}

}  // namespace
}  // namespace lockstep::suites
