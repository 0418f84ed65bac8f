// SPDX-License-Identifier: Apache-2.0
// Training runs: repeatable bits, meshes against the reference, what is saved, what is refused.
#include "suites/train/train.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/compare.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"
#include "suites/train/curves.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

TrainOptions quick(const char* mesh = nullptr) {
  TrainOptions options;
  options.steps = 3;
  options.batch = 2;
  options.sequence = 16;
  if (mesh != nullptr) options.mesh = parse_mesh(mesh);
  return options;
}

// Catches: state that leaks from one run into the next, a chain that forgets a step.
TEST(Train, RepeatsItsBits) {
  const auto text = read_text("", 16);
  const auto first = train(quick(), text), second = train(quick(), text);
  auto other_seed = quick();
  other_seed.seed = 1;
  const auto other = train(other_seed, text);
  ASSERT_EQ(first.size(), 3U);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(first[i].chain, second[i].chain);
    EXPECT_NE(first[i].chain, other[i].chain);
    EXPECT_GT(first[i].tokens_per_second, 0);
    EXPECT_GT(first[i].peak_bytes, 1000000);  // parameters alone are more
  }
  EXPECT_NE(first[0].chain, first[1].chain);
}

// Reference (oracle's simulation) and a world of one (engine's closed form): bit for bit, with dropout.
// Catches: streams that are not one, an engine path that is not the identity on one rank.
TEST(Train, WorldOfOneIsTheReference) {
  const auto text = read_text("", 16);
  for (const char* preset : {"tiny", "odd"})
    for (const auto optimizer : kOptimizers) {
      auto plain = quick(), one = quick("tp:1");
      plain.preset = one.preset = preset;
      plain.optimizer = one.optimizer = optimizer;
      EXPECT_EQ(train(plain, text).back().chain, train(one, text).back().chain) << preset << name(optimizer);
    }
}

// Catches: an indexed run whose reference draws the stock stream, numbers that know placements.
TEST(Train, IndexedNumbersHaveTheirOwnReference) {
  const auto text = read_text("", 16);
  auto plain = quick(), one = quick("tp:1");
  const auto stock = train(plain, text);
  for (auto* options : {&plain, &one}) options->init = options->drop = RandomPolicy::kIndexed;
  const auto reference = train(plain, text);
  EXPECT_EQ(reference.back().chain, train(one, text).back().chain);
  EXPECT_NE(reference.front().loss_bits, stock.front().loss_bits);
  Curve curve{.mesh = parse_mesh("tp:4"), .policy = RandomPolicy::kIndexed};
  one.mesh = curve.mesh;
  curve.steps = train(one, text);
  compare_with_reference(curve, reference, c10::ScalarType::Float);
  EXPECT_LE(curve.max_abs, 1e-5);
}

// Catches: a sharded step that computes something else, in single precision and on uneven presets.
TEST(Train, MeshesStayWithinTheLimit) {
  const auto text = read_text("", 16);
  for (const char* preset : {"tiny", "odd"}) {
    auto options = quick();
    options.preset = preset;
    const auto reference = train(options, text);
    for (const char* mesh : {"tp:2", "tp:4", "tp:8", "dp:2,tp:2"}) {
      Curve curve{.mesh = parse_mesh(mesh)};
      options.mesh = curve.mesh;
      curve.steps = train(options, text);
      compare_with_reference(curve, reference, c10::ScalarType::Float);
      EXPECT_LE(curve.max_abs, 1e-5) << preset << " " << mesh;
    }
  }
}

// Catches: choices of experts that are one rank's, of one layer, of the tokens in another order, or of an
// older step.
TEST(Train, ChoicesAreOfEachTokenInOrder) {
  const auto text = read_text("", 16);
  auto options = quick();
  options.model = "mixtral";
  options.batch = 4;
  EXPECT_TRUE(train(options, text)[0].choices.empty());
  options.keeps_choices = true;
  const auto plain = train(options, text);
  EXPECT_EQ(plain[0].choices.size(), static_cast<size_t>(model_options(options).layers * 4 * 16 * 2));
  for (size_t i = 0; i < plain[0].choices.size(); i += 2)
    EXPECT_LT(plain[0].choices[i], plain[0].choices[i + 1]);
  EXPECT_NE(plain[0].choices, plain[1].choices);
  for (const char* mesh : {"ep:2", "dp:2,ep:2", "fsdp:2"}) {
    options.mesh = parse_mesh(mesh);
    const auto on_mesh = train(options, text);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i].choices, on_mesh[i].choices) << mesh << i;
  }
}

// Catches: a sharded step that no order of reductions explains, a judge that cannot tell.
TEST(Train, EveryStepIsExplained) {
  const auto text = read_text("", 16);
  for (const char* preset : {"tiny", "odd"})
    for (const char* mesh : {"tp:1", "tp:2", "tp:4", "tp:8", "dp:2,tp:2"}) {
      SCOPED_TRACE(std::string(preset) + " on " + mesh);
      auto options = quick(mesh);
      options.preset = preset;
      TrainObserver observer;
      observer.wants_state = [](int64_t) { return true; };
      observer.on_state = [&](const TrainState& before, const TrainStep& step) {
        const auto judgement = judge_step(options, text, before, step);
        EXPECT_LT(judgement.verdict, dashboard::Verdict::kExpectedException) << judgement.text;
      };
      train(options, text, observer);
    }
}

// Catches: a dtype that the model, the loss or the judge forgets. One step: AdamW's eps is 0 in f16.
TEST(Train, EveryDtypeIsExplained) {
  const auto text = read_text("", 16);
  for (const auto dtype : {c10::kDouble, c10::kBFloat16, c10::kHalf})
    for (const double dropout : {0.0, 0.1}) {
      auto options = quick("tp:2");
      options.steps = 1;
      options.dtype = dtype;
      options.dropout = dropout;
      TrainObserver observer;
      observer.wants_state = [](int64_t) { return true; };
      observer.on_state = [&](const TrainState& before, const TrainStep& step) {
        EXPECT_TRUE(std::isfinite(step.loss) && std::isfinite(step.norm));
        const auto judgement = judge_step(options, text, before, step);
        EXPECT_LT(judgement.verdict, dashboard::Verdict::kExpectedException)
            << dtype << " " << judgement.text;
      };
      train(options, text, observer);
    }
}

// Catches: a judge that calls everything explained: other random draws, replicas that disagree, other bits.
TEST(Train, WhatIsNotExplainedIsFound) {
  const auto text = read_text("", 16);
  const auto verdict = [&](RandomPolicy drop, const char* disagreement, uint64_t flip) {
    auto options = quick("tp:2");
    options.steps = 1;
    options.drop = drop;
    TrainObserver observer;
    StepJudgement found;
    observer.wants_state = [](int64_t) { return true; };
    observer.on_state = [&](const TrainState& before, const TrainStep& step) {
      auto state = before;
      auto measured = step;
      state.disagreement = disagreement;
      measured.loss_bits ^= flip;
      found = judge_step(options, text, state, measured);
    };
    train(options, text, observer);
    return found.verdict;
  };
  EXPECT_EQ(verdict(RandomPolicy::kSingleDevice, "", 0), dashboard::Verdict::kExplained);
  EXPECT_EQ(verdict(RandomPolicy::kPerRankSeeds, "", 0), dashboard::Verdict::kDifferent);
  EXPECT_EQ(verdict(RandomPolicy::kSingleDevice, "norm.weight: rank 1", 0), dashboard::Verdict::kDifferent);
  EXPECT_EQ(verdict(RandomPolicy::kSingleDevice, "", 1), dashboard::Verdict::kNondeterministic);
}

// Catches: a suite whose cases say that they moved nothing, or that counts what its judge moves.
TEST(Train, CasesCountTheBytesThatTheirStepsMove) {
  const auto text = read_text("", 16);
  for (const int64_t index : {0, 1, 5}) {
    const auto c = train_case(0, index);
    LockstepEngine engine;
    const auto outcome = judge_train(c, engine);
    ASSERT_TRUE(std::holds_alternative<Passed>(outcome)) << explanation_of(outcome);
    auto options = quick();
    options.sequence = 8;
    options.mesh = c.mesh;
    Traffic traffic;
    options.world = counting(local_world(c.mesh.size()), traffic);
    train(options, text);
    EXPECT_EQ(std::get<Passed>(outcome).bytes_moved, traffic.bytes) << to_string(c.mesh);
    EXPECT_EQ(traffic.bytes > 0, c.mesh.size() > 1) << to_string(c.mesh);
  }
}

// Catches: a run that goes on with NaN for hours, curves that agree because both sides are NaN.
TEST(Train, EndsWhereTheLossIsNoNumber) {
  const auto text = read_text("", 16);
  auto options = quick();
  options.steps = 20;
  options.lr = 1e30;
  EXPECT_EQ(train(options, text).size(), 20U);
  TrainObserver observer;
  observer.goes_on = finite;
  const auto steps = train(options, text, observer);
  EXPECT_LT(steps.size(), 20U);
  EXPECT_FALSE(finite(steps.back()));
  EXPECT_TRUE(finite(steps.front()));
  const auto report =
      curves({.train = options, .meshes = {parse_mesh("tp:1")}, .baselines = false, .jobs = 1}, text);
  EXPECT_TRUE(report.curves.empty());
  ASSERT_EQ(report.gates.size(), 1U);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.gates[0].got.find(concat("step ", steps.size(), ": ")), std::string::npos);
}

// Of a training that was saved every tensor, count and offset is there, on any other mesh. Catches: a shard
// that is read from where the old mesh had it, a moment that is forgotten, one that is another parameter's.
TEST(Train, WhatWasSavedIsTheSameStateOnAnotherMesh) {
  const auto text = read_text("", 16);
  const auto folder = std::filesystem::temp_directory_path() / concat("lockstep-train-test-", getpid());
  const char* meshes[] = {"fsdp:2,tp:2", "fsdp:3", "dp:2", "tp:4", nullptr};
  for (const auto optimizer : kOptimizers) {
    std::optional<TrainState> before;
    for (const auto* mesh : meshes) {
      auto options = quick(mesh);
      options.batch = 6;
      options.optimizer = optimizer;
      Trainer trainer(options);
      trainer.init();
      if (!before) {
        for (const int64_t step : {1, 2}) trainer.step(trainer.batch(text, step));
      } else {
        EXPECT_EQ(trainer.resume(folder.string()).at("who"), "a");
      }
      auto now = trainer.state();
      EXPECT_EQ(now.disagreement, "") << name(optimizer);
      trainer.save(folder.string(), {{"who", "a"}});
      if (!before) before = now;
      EXPECT_EQ(now.optimizer.steps, before->optimizer.steps);
      const auto same = [&](const nn::Tensors& a, const nn::Tensors& b) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(a[i].defined(), b[i].defined());
          EXPECT_TRUE(!a[i].defined() || oracle::compare(a[i], b[i]).equal())
              << name(optimizer) << " on " << (mesh == nullptr ? "one device" : mesh) << ", number " << i;
        }
      };
      same(now.parameters, before->parameters);
      ASSERT_EQ(now.optimizer.moments.size(), before->optimizer.moments.size());
      for (size_t k = 0; k < now.optimizer.moments.size(); ++k)
        same(now.optimizer.moments[k], before->optimizer.moments[k]);
    }
  }
  std::filesystem::remove_all(folder);
}

// Catches: a checkpoint that lacks a moment, or has one of another form, and is trained on.
TEST(Train, ACheckpointThatLacksSomethingIsRefused) {
  const auto text = read_text("", 16);
  const auto folder = std::filesystem::temp_directory_path() / concat("lockstep-train-test-", getpid());
  auto options = quick();
  options.optimizer = OptimizerKind::kAdamW;
  Trainer trainer(options);
  trainer.init();
  trainer.step(trainer.batch(text, 1));
  const auto first = concat("optim.state.", trainer.model().named_parameters().front().first, ".");
  const auto refused = [&](const std::string& what, const std::function<void(dcp::NamedTensor&)>& change) {
    trainer.save(folder.string(), {});
    std::vector<dcp::NamedTensor> all;
    for (const auto& tensor : dcp::contents(folder.string()).tensors)
      all.push_back({tensor.name, at::empty(tensor.shape, tensor.dtype)});
    dcp::load(folder.string(), all);
    for (auto& one : all) change(one);
    std::erase_if(all, [](const auto& one) { return !one.value.defined(); });
    dcp::save(folder.string(), all);
    Trainer again(options);
    again.init();
    try {
      again.resume(folder.string());
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  const auto of = [&](const char* moment, const std::function<void(at::Tensor&)>& change) {
    return [=](dcp::NamedTensor& one) {
      if (one.name == first + moment) change(one.value);
    };
  };
  refused(first + "exp_avg", of("exp_avg", [](at::Tensor& t) { t.reset(); }));
  refused(first + "step", of("step", [](at::Tensor& t) { t.reset(); }));
  refused(first + "exp_avg_sq", of("exp_avg_sq", [](at::Tensor& t) { t = t.to(at::kDouble); }));
  refused(first + "exp_avg", of("exp_avg", [](at::Tensor& t) { t = t.flatten(); }));
  refused("is no number of steps", of("step", [](at::Tensor& t) { t.fill_(0.5); }));
  refused("is no number of steps", of("step", [](at::Tensor& t) { t.fill_(std::nan("")); }));
  std::filesystem::remove_all(folder);
}

// Catches: a cast that one device leaves out, or makes elsewhere, or of a tensor that stays as it is; a
// policy that nobody follows.
TEST(Train, UnderAPolicyAWorldOfOneIsTheReference) {
  const auto text = read_text("", 16);
  const auto without = train(quick(), text);
  for (const MixedPrecisionPolicy policy :
       {MixedPrecisionPolicy{at::kBFloat16, at::kFloat}, {at::kHalf}, {std::nullopt, at::kBFloat16}})
    for (const auto optimizer : kOptimizers) {
      auto plain = quick(), one = quick("fsdp:1");
      plain.precision = one.precision = policy;
      plain.optimizer = one.optimizer = optimizer;
      const auto expected = train(plain, text), got = train(one, text);
      ASSERT_EQ(expected.size(), got.size());
      EXPECT_EQ(expected.back().chain, got.back().chain);
      EXPECT_NE(expected.back().chain, without.back().chain);
    }
}

// Catches: options that fail in the middle of a run, or without a remedy.
TEST(Train, RefusesOptionsThatDoNotFit) {
  const auto refuses = [](TrainOptions options) {
    EXPECT_THROW(train(options, std::string(64, 'a')), Error);
  };
  auto o = quick();
  o.model = "gpt";
  refuses(o);
  o = quick();
  o.preset = "huge";
  refuses(o);
  refuses(quick("pp:2"));
  refuses(quick("dp:3"));
  o = quick();
  o.dropout = 1;
  refuses(o);
  o = quick();
  o.sequence = 100;
  refuses(o);
  o = quick();
  o.dtype = c10::ScalarType::Long;
  refuses(o);
  o = quick();
  o.optimizer = OptimizerKind::kFusedSgd;
  o.dtype = c10::ScalarType::Half;
  refuses(o);
  for (const double lr : {std::nan(""), -1.0, std::numeric_limits<double>::infinity()}) {
    o = quick();
    o.lr = lr;
    refuses(o);
  }
  refuses(quick("tp:2000"));
  o = quick("tp:2");
  o.precision.param_dtype = at::kBFloat16;  // whose casts nobody makes
  refuses(o);
  o = quick("fsdp:2");
  o.precision.reduce_dtype = at::kLong;
  refuses(o);
  o = quick();
  o.preset = "8b";
  try {
    train(o, std::string(64, 'a'));
    FAIL() << "8b was trained";
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find("8 billion parameters: with gradients and AdamW's two moments 128 GB"),
        std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lockstep::suites
