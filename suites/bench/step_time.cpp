// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/step_time.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "suites/bench/measure.h"
#include "suites/fsdp/step_groups.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kSequence = 32;

TrainOptions options_of(int64_t ranks, int64_t tokens) {
  TrainOptions options;
  options.mesh = DeviceMesh({ranks}, {"fsdp"});
  options.sequence = kSequence;
  options.batch = ranks * tokens / kSequence;
  options.dropout = 0;
  return options;
}

// A line for each sample, in what it takes of each: divided by its seconds, so that errors are relative.
at::Tensor lines(const std::vector<StepSample>& samples) {
  std::vector<double> all;
  for (const auto& s : samples)
    for (const double part : {1.0, s.work.bytes, s.work.elements}) all.push_back(part / s.seconds);
  return at::tensor(all, at::kDouble).view({-1, 3});
}

}  // namespace

StepWork work_of_rank(const fsdp::StepPlan& plan, double elements) {
  std::vector<int64_t> sent;
  for (const auto which : fsdp::kMoves) {
    const auto& moved = plan.moves.*which;
    sent.resize(std::max(sent.size(), moved.sent.size()));
    for (size_t i = 0; i < moved.sent.size(); ++i) sent[i] += moved.sent[i];
  }
  return {sent.empty() ? 0 : static_cast<double>(std::ranges::max(sent)), elements};
}

StepWork work_of_all(const fsdp::StepPlan& plan, double elements) {
  StepWork work{0, elements};
  for (const auto which : fsdp::kMoves) work.bytes += static_cast<double>((plan.moves.*which).bytes);
  return work;
}

double elements_of(const std::vector<fsdp::StepGroup>& groups, double tokens) {
  return 3 * static_cast<double>(numel(groups)) * tokens;
}

std::vector<fsdp::StepGroup> sampled_groups() {
  return step_groups(model_options(options_of(1, kSequence)));
}

double step_seconds(const TrainOptions& options, int steps) {
  const auto text = read_text("", static_cast<size_t>(options.sequence) + 1);
  Trainer trainer(options);
  trainer.init();
  const auto batch = trainer.batch(text, 1);
  trainer.step(batch);
  double least = 1e9;
  for (int i = 0; i < steps; ++i) {
    const double start = thread_seconds();
    trainer.step(batch);
    least = std::min(least, thread_seconds() - start);
  }
  return least;
}

StepSample sample_step(int64_t ranks, int64_t tokens) {
  constexpr int kSteps = 8;
  const auto groups = sampled_groups();
  const double elements = elements_of(groups, static_cast<double>(ranks * tokens));
  return {ranks, tokens, work_of_all(plan_step(groups, {.shards = ranks}), elements),
          step_seconds(options_of(ranks, tokens), kSteps)};
}

// Where the least squares have a part below zero, the others alone.
StepTime fit(const std::vector<StepSample>& samples) {
  const auto all = lines(samples), ones = at::ones({all.size(0), 1}, at::kDouble);
  const auto scale = std::get<0>(all.max(0));
  std::vector<int64_t> parts{0, 1, 2};
  for (;;) {
    const auto index = at::tensor(parts);
    const auto solved = std::get<0>(at::linalg_lstsq((all / scale).index_select(1, index), ones)).flatten();
    const auto least = solved.argmin().item<int64_t>();
    if (solved[least].item<double>() < 0 && parts.size() > 1) {
      parts.erase(parts.begin() + least);
      continue;
    }
    auto found = at::zeros({3}, at::kDouble);
    found.index_copy_(0, index, solved);
    found = found / scale;
    return {found[0].item<double>(), found[1].item<double>(), found[2].item<double>()};
  }
}

// In turns, so that what slows the machine for a while slows few ranks and more alike; the least of each. The
// larger steps have as many tokens as that of 64 ranks in all, so that caches hold as little of them.
Calibration calibrate() {
  constexpr int64_t kFew[] = {4, 8}, kTokens[] = {32, 64, 128, 256, 512};
  constexpr int64_t kBeyond = 64, kTokensBeyond = 64;
  constexpr int kTurns = 2;
  Calibration made;
  for (int turn = 0; turn < kTurns; ++turn) {
    size_t i = 0;
    for (const int64_t ranks : kFew)
      for (const int64_t tokens : kTokens) {
        const auto sample = sample_step(ranks, tokens);
        if (turn == 0) made.samples.push_back(sample);
        auto& least = made.samples[i++].seconds;
        least = std::min(least, sample.seconds);
      }
  }
  made.time = fit(made.samples);
  made.beyond = sample_step(kBeyond, kTokensBeyond);
  made.predicted = made.time.seconds(made.beyond.work);
  return made;
}

}  // namespace lockstep::suites
