// SPDX-License-Identifier: Apache-2.0
// Whether one training step on a mesh is what one device computes from the same state, or differs only as the
// order of its reductions explains: the oracle's two proofs for each op, and its own values to the end of the
// step.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/rows.h"
#include "oracle/judge/check.h"
#include "suites/train/train.h"

namespace lockstep::suites {

struct TrainState;

// What a recording and a timeline begin with, and end with: one device's tensors, and the mesh's in the same
// order.
std::vector<oracle::Start> starts_of(const std::vector<at::Tensor>& plain,
                                     const std::vector<at::Tensor>& placed);
std::vector<oracle::Final> finals_of(const std::vector<at::Tensor>& plain,
                                     const std::vector<at::Tensor>& placed);

struct StepJudgement {
  int64_t step = 0;
  // equal, explained (three kinds), nondeterministic, different
  dashboard::Verdict verdict = dashboard::Verdict::kEqual;
  std::string text;             // what differs, or why it may
  std::string op{}, pattern{};  // of what differs: the op and its kinds of placement, where they are known
  std::vector<dashboard::ForgivenRow> forgiven{};
};

// Runs step `measured.step` again from `before`, on options.mesh with a timeline and on one device with a
// recording. The run on the mesh must repeat the measured bits. The thread's random stream is left as it was.
// Throws EngineThrew.
StepJudgement judge_step(const TrainOptions& options, std::string_view text, const TrainState& before,
                         const TrainStep& measured);

}  // namespace lockstep::suites
