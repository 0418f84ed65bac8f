// SPDX-License-Identifier: Apache-2.0
// Two laws. A training step of a small model on a mesh computes what one device computes from the same state,
// in bits or with proof. And what one device computes is what the papers' formulas say, by code that shares
// nothing with the model and the optimizers; so is what a training may use and this model does not.
// train_case.h says what a case is.
#include "suites/train/train.h"

#include "engine/values/error.h"
#include "oracle/program/number_text.h"
#include "suites/core/engine_threw.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"
#include "suites/laws/train_case.h"
#include "suites/train/formula_judgement.h"
#include "suites/train/parts_judgement.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

struct Row {
  const char* mesh;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  c10::ScalarType dtype = at::kFloat;
  MixedPrecisionPolicy precision = {};
  bool keeps_gradients = false;  // zeros are written to them, and nothing decays: the update is of them alone
  int64_t experts = 0;
};
const Row kRows[] = {
    {"tp:1"},
    {"tp:2"},
    {"dp:2,tp:2"},
    {"tp:3"},
    {"dp:2"},
    {"tp:4"},
    {"tp:2", OptimizerKind::kFusedAdamW},
    {"dp:2,tp:2", OptimizerKind::kSgd},
    {"tp:3", OptimizerKind::kFusedSgd},
    {"dp:2", OptimizerKind::kFusedAdamW},
    {"dp:2,tp:2", OptimizerKind::kAdamW, at::kBFloat16},
    {"tp:2", OptimizerKind::kSgd, at::kHalf},
    {"fsdp:2"},
    {"fsdp:3"},
    {"fsdp:2,tp:2"},
    {"dp_replicate:2,fsdp:2", OptimizerKind::kFusedAdamW},
    {"fsdp:4", OptimizerKind::kSgd, at::kBFloat16},
    {"fsdp:3", OptimizerKind::kAdamW, at::kFloat, {at::kBFloat16, at::kFloat}},
    {"dp_replicate:2,fsdp:2", OptimizerKind::kFusedAdamW, at::kFloat, {at::kHalf}},
    {"fsdp:2,tp:2", OptimizerKind::kAdamW, at::kFloat, {at::kBFloat16, at::kFloat}},
    {"tp:2", OptimizerKind::kSgd, at::kFloat, {}, true},
    {"fsdp:2", OptimizerKind::kSgd, at::kFloat, {at::kBFloat16, at::kFloat}, true},
    {"fsdp:3", OptimizerKind::kAdamW8bit},
    {"fsdp:2,tp:2", OptimizerKind::kAdamW8bit, at::kFloat, {at::kBFloat16, at::kFloat}},
    {"fsdp:3", OptimizerKind::kMuon},
    {"fsdp:2,tp:2", OptimizerKind::kMuon, at::kFloat, {at::kBFloat16, at::kFloat}},
    {"ep:3", OptimizerKind::kAdamW, at::kFloat, {}, false, 5},
    {"fsdp:2,ep:2", OptimizerKind::kAdamW, at::kFloat, {}, false, 4},
    {"fsdp:2,ep:2", OptimizerKind::kAdamW8bit, at::kFloat, {at::kBFloat16, at::kFloat}, false, 3},
    {"dp:2,ep:2", OptimizerKind::kMuon, at::kFloat, {}, false, 2},
    {"fsdp:3", OptimizerKind::kFusedSgd, at::kFloat, {}, false, 3},
};

struct Judged {
  Passed passed;
  std::optional<Failed> failure;
};

Failed failure_of(const TrainOptions& options, const std::string& verdict, const std::string& op,
                  const std::string& pattern, const std::string& text) {
  return failed("train", verdict, op, pattern.empty() ? "-" : pattern, dtype_name(options.dtype), text);
}

Failed exception(const TrainOptions& options, const EngineThrew& e) {
  return failure_of(options, "exception", e.op, "", e.what());
}

void add_step(const TrainOptions& options, const StepJudgement& step, Judged& judged) {
  auto& passed = judged.passed;
  passed.verdict = std::max(passed.verdict, step.verdict);
  passed.forgiven.insert(passed.forgiven.end(), step.forgiven.begin(), step.forgiven.end());
  const auto text = concat("step ", step.step, ": ", step.text);
  if (step.verdict >= dashboard::Verdict::kNondeterministic)
    judged.failure = failure_of(options, dashboard::name(step.verdict), step.op, step.pattern, text);
  else if (step.verdict != dashboard::Verdict::kEqual)
    passed.note += concat(passed.note.empty() ? "" : "\n", text);
}

// The first law: it makes a World of its own, which counts what the steps move. What the judge moves when it
// runs a step again is not counted.
Judged judge_sharding(const TrainOptions& options, const std::string& text) {
  Traffic traffic;
  auto counted = options;
  counted.world = counting(local_world(options.mesh->size(), options.on), traffic);
  Judged judged;
  std::exception_ptr broken;
  TrainObserver observer;
  observer.wants_state = [&](int64_t) { return !judged.failure && !broken; };
  observer.goes_on = [&](const TrainStep&) { return !judged.failure && !broken; };
  observer.on_state = [&](const TrainState& before, const TrainStep& step) {
    try {
      add_step(options, judge_step(options, text, before, step), judged);
    } catch (const EngineThrew& e) {
      judged.failure = exception(options, e);
    } catch (...) {
      broken = std::current_exception();
    }
  };
  try {
    in_engine([&] { train(counted, text, observer); });
  } catch (const EngineThrew& e) {
    judged.failure = exception(options, e);
  }
  if (broken) std::rethrow_exception(broken);
  judged.passed.bytes_moved = traffic.bytes;
  return judged;
}

// The second law, of the model, wherever the first one was asked. What is found is of no placement.
void judge_formulas(TrainOptions options, const std::string& text, Judged& judged) {
  options.on = c10::kCPU;
  options.mesh = options.mesh->on(c10::kCPU);
  auto& note = judged.passed.note;
  try {
    auto formulas = judge_formulas(options, text);
    if (formulas.holds())
      if (auto parts = judge_parts(options); !parts.holds()) formulas = std::move(parts);
    note += concat(note.empty() ? "" : "\n", "formulas: ", formulas.text);
    if (!formulas.holds()) judged.failure = failure_of(options, formulas.question, "", "", note);
  } catch (const EngineThrew& e) {
    judged.failure = exception(options, e);
  }
}

// What of the training has kernels there alone; empty: nothing.
std::string needs_the_cpu(const oracle::Case& c) {
  const auto optimizer = c.options.find("optimizer"), experts = c.options.find("experts");
  if (optimizer != c.options.end() && !runs_on(parse_optimizer(optimizer->second), c10::kCUDA))
    return optimizer->second + " runs on the CPU";
  return experts != c.options.end() && experts->second != "0" ? "grouped products run on the CPU" : "";
}

}  // namespace

int64_t train_cases() {
  return static_cast<int64_t>(std::size(kRows));
}

oracle::Case train_case(uint64_t run_seed, int64_t index) {
  oracle::Case c;
  c.suite = "train";
  const auto& row = kRows[index];
  c.mesh = parse_mesh(row.mesh);
  c.program.seed = run_seed;
  if (row.optimizer != OptimizerKind::kAdamW) c.options["optimizer"] = name(row.optimizer);
  if (row.dtype != at::kFloat) c.options["dtype"] = dtype_name(row.dtype);
  if (row.precision.param_dtype) c.options["param_dtype"] = dtype_name(*row.precision.param_dtype);
  if (row.precision.reduce_dtype) c.options["reduce_dtype"] = dtype_name(*row.precision.reduce_dtype);
  if (row.experts > 0) c.options["experts"] = std::to_string(row.experts);
  if (row.keeps_gradients) {
    c.options["set_to_none"] = "0";
    c.options["weight_decay"] = oracle::double_text(0);
  }
  return c;
}

void check_train(const oracle::Case& c) {
  training_of(c);
}

std::vector<oracle::Case> simpler_train(const oracle::Case& c) {
  return simpler_trainings(c);
}

EngineResult run_train(const WorldPtr& world, const oracle::Case& c) {
  auto options = training_of(c);
  options.world = world;
  const auto text = read_text("", static_cast<size_t>(options.sequence) + 1);
  Trainer trainer(options);
  trainer.init();
  EngineResult ends;
  const auto add = [&](const nn::Tensors& tensors) {
    for (const auto& tensor : tensors) ends.values.push_back(value_of(tensor));
  };
  for (int64_t step = 1; step <= options.steps; ++step) {
    const auto [loss, norm] = trainer.step(trainer.batch(text, step));
    add({loss, norm});
  }
  add(trainer.model().parameters());
  for (const auto& moments : trainer.optimizer().moments) add(moments);
  return ends;
}

// A training is no Program: it is judged here, whatever the engine under test.
Outcome judge_train(const oracle::Case& c, EngineUnderTest& engine) {
  if (const auto why = needs_the_cpu(c); !why.empty() && c.mesh.device_type() != c10::kCPU)
    return not_judged("no kernel of the device", why);
  auto options = training_of(c);
  options.fault = engine.train_fault();
  const auto text = read_text("", static_cast<size_t>(options.sequence) + 1);
  auto judged = judge_sharding(options, text);
  if (!judged.failure) judge_formulas(options, text, judged);
  if (!judged.failure) return judged.passed;
  judged.failure->bytes_moved = judged.passed.bytes_moved;
  return *judged.failure;
}

}  // namespace lockstep::suites
