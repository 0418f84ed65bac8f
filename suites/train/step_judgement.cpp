// SPDX-License-Identifier: Apache-2.0
#include "suites/train/step_judgement.h"

#include <ATen/ATen.h>

#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/plain/recording.h"
#include "suites/core/engine_threw.h"
#include "suites/core/judge.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

using dashboard::Verdict;

// Pairs of one device's tensor and the mesh's.
struct Pairs {
  nn::Tensors plain, distributed;

  void add(const at::Tensor& a, const at::Tensor& b) {
    if (!a.defined() && !b.defined()) return;
    plain.push_back(a);
    distributed.push_back(b);
  }
  void add(const nn::Named<at::Tensor>& a, const nn::Named<at::Tensor>& b) {
    for (size_t i = 0; i < a.size(); ++i) add(a[i].second, b[i].second);
  }
  void add(const nn::Tensors& a, const nn::Tensors& b) {
    for (size_t i = 0; i < a.size(); ++i) add(a[i], b[i]);
  }
  void add_state(const Trainer& a, const Trainer& b) {
    add(a.model().named_parameters(), b.model().named_parameters());
    add(a.model().named_buffers(), b.model().named_buffers());
    const auto of_a = a.optimizer(), of_b = b.optimizer();
    for (size_t k = 0; k < of_a.moments.size(); ++k) add(of_a.moments[k], of_b.moments[k]);
  }
};

StepJudgement mismatch_at(int64_t step, const oracle::Judgement& judgement, const Timeline& timeline) {
  const auto& mismatch = *judgement.mismatch;
  std::vector<Placements> placements;
  if (mismatch.entry < timeline.size()) {
    const auto& entry = timeline[mismatch.entry];
    for (const auto& r : entry.inputs.empty() ? entry.outputs : entry.inputs)
      if (r.spec) placements.push_back(r.spec->placements());
  }
  return {step, Verdict::kDifferent, oracle::describe(judgement), mismatch.op, placement_pattern(placements)};
}

}  // namespace

std::vector<oracle::Start> starts_of(const nn::Tensors& plain, const nn::Tensors& placed) {
  std::vector<oracle::Start> starts;
  for (size_t i = 0; i < plain.size(); ++i)
    starts.push_back({plain[i], std::make_shared<const Spec>(spec(placed[i])), {}});
  return starts;
}

std::vector<oracle::Final> finals_of(const nn::Tensors& plain, const nn::Tensors& placed) {
  std::vector<oracle::Final> finals;
  for (size_t i = 0; i < plain.size(); ++i) finals.push_back({plain[i], record(placed[i])});
  return finals;
}

StepJudgement judge_step(const TrainOptions& options, std::string_view text, const TrainState& before,
                         const TrainStep& measured) {
  StepJudgement result{measured.step, Verdict::kDifferent, before.disagreement};
  if (!before.disagreement.empty()) return result;
  const ForkRng keep;
  auto one_device = options;
  one_device.mesh.reset();
  one_device.without = Without::kNothing;
  one_device.token_blocks = token_blocks(*options.mesh);
  Trainer mesh(options), plain(one_device);
  in_engine([&] {
    mesh.load(before);
    plain.load(before);
  });
  const auto batch = [&](const Trainer& of) {
    return in_engine([&] { return of.batch(text, measured.step); });
  };
  const auto placed = batch(mesh), whole = batch(plain);
  Pairs starts;
  starts.add_state(plain, mesh);
  starts.add(whole.tokens, placed.tokens);
  starts.add(whole.targets, placed.targets);
  const auto start_records = starts_of(starts.plain, starts.distributed);

  oracle::Recording recording;
  recording.device = options.on;
  Trainer::Result expected, actual;
  at::Tensor expected_evaluation, actual_evaluation;
  {
    const oracle::RecordingScope recorder(recording);
    expected = in_engine([&] { return plain.step(whole); });
    expected_evaluation = in_engine([&] { return plain.evaluate(whole); });
    recorder.check();
  }
  const auto random_after = generator().state;
  generator().state = before.random;
  Timeline timeline;
  {
    const TimelineScope log(timeline);
    actual = in_engine([&] { return mesh.step(placed); });
    actual_evaluation = in_engine([&] { return mesh.evaluate(placed); });
  }
  if (generator().state != random_after)
    return {measured.step, Verdict::kDifferent, "the random stream ends elsewhere than on one device"};
  const auto again = measure(options, actual.loss, actual.norm);
  if (again.loss_bits != measured.loss_bits || again.norm_bits != measured.norm_bits)
    return {measured.step, Verdict::kNondeterministic,
            "the step, run again from the same state, gives other bits"};

  Pairs finals;
  finals.add(expected.loss, actual.loss);
  finals.add(expected.norm, actual.norm);
  finals.add(expected_evaluation, actual_evaluation);
  finals.add_state(plain, mesh);
  const auto judgement = oracle::check(recording, timeline, start_records,
                                       finals_of(finals.plain, finals.distributed), options.numerics);
  if (judgement.mismatch) return mismatch_at(measured.step, judgement, timeline);
  auto passed = passed_with(judgement);
  return {measured.step, passed.verdict, oracle::describe(judgement), "", "", std::move(passed.forgiven)};
}

}  // namespace lockstep::suites
