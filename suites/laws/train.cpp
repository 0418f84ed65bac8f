// SPDX-License-Identifier: Apache-2.0
// Law: a training step of a small model on a mesh computes what one device computes from the same state, in
// bits or with proof. The case is an empty Program: its mesh trains, its seed is the run's.
#include "suites/train/train.h"

#include "engine/values/error.h"
#include "suites/engines/counting_world.h"
#include "suites/laws/laws.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

constexpr const char* kMeshes[] = {"tp:1", "tp:2", "dp:2,tp:2", "tp:3", "dp:2", "tp:4"};
constexpr int64_t kSteps = 3;

// Small enough for seconds; "odd" divides by neither 4 nor 8.
TrainOptions options_of(const oracle::Case& c) {
  TrainOptions options;
  options.numerics = c.numerics;
  options.preset = c.mesh.size() == 3 ? "odd" : "tiny";
  options.steps = kSteps;
  options.batch = 2;
  options.sequence = 8;
  options.seed = c.program.seed;
  options.device = c.device;
  options.mesh = c.mesh;
  return options;
}

}  // namespace

int64_t train_cases() {
  return static_cast<int64_t>(std::size(kMeshes));
}

oracle::Case train_case(uint64_t run_seed, int64_t index) {
  oracle::Case c;
  c.suite = "train";
  c.mesh = parse_mesh(kMeshes[index]);
  c.program.seed = run_seed;
  return c;
}

// A training is no Program that an engine under test could run: it makes a World of its own, which counts
// what the steps move. What the judge moves when it runs a step again is not counted.
Outcome judge_train(const oracle::Case& c, EngineUnderTest&) {
  const auto options = options_of(c);
  Traffic traffic;
  auto counted = options;
  counted.world = counting(local_world(c.mesh.size()), traffic);
  const auto text = read_text("", static_cast<size_t>(options.sequence) + 1);
  Passed passed;
  std::optional<Failed> failure;
  TrainObserver observer;
  observer.wants_state = [](int64_t) { return true; };
  observer.on_state = [&](const TrainState& before, const TrainStep& step) {
    if (failure) return;
    const auto judgement = judge_step(options, text, before, step);
    passed.verdict = std::max(passed.verdict, judgement.verdict);
    passed.forgiven.insert(passed.forgiven.end(), judgement.forgiven.begin(), judgement.forgiven.end());
    if (judgement.verdict >= dashboard::Verdict::kNondeterministic)
      failure = failed("train", dashboard::name(judgement.verdict), "", to_string(c.mesh),
                       dtype_name(options.dtype), concat("step ", judgement.step, ": ", judgement.text));
    else if (judgement.verdict != dashboard::Verdict::kEqual)
      passed.note += concat(passed.note.empty() ? "" : "\n", "step ", judgement.step, ": ", judgement.text);
  };
  train(counted, text, observer);
  passed.bytes_moved = traffic.bytes;
  if (!failure) return passed;
  failure->bytes_moved = traffic.bytes;
  return *failure;
}

}  // namespace lockstep::suites
