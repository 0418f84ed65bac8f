// SPDX-License-Identifier: Apache-2.0
// A model that trains with one wrong rule: found in every dtype, at the size of real sums.
#include <gtest/gtest.h>

#include "engine/ops/rules/table.h"
#include "engine/values/placement.h"
#include "suites/train/step_judgement.h"
#include "suites/train/text.h"
#include "suites/train/train.h"

namespace lockstep::suites {
namespace {

// The op's sums over a cut dimension pend as `op` instead.
RowsOf called(const char* name, ReduceOp op) {
  return [rows = find_op(name)->rows, op](const OpCall& call) {
    auto changed = rows(call);
    for (auto& row : changed)
      for (auto& out : row.outputs)
        if (is_partial(out)) out = Partial{op};
    return changed;
  };
}

StepJudgement one_step(c10::ScalarType dtype, const std::string& text) {
  TrainOptions options;
  options.steps = 1;
  options.batch = 4;
  options.sequence = 64;
  options.dtype = dtype;
  options.mesh = parse_mesh("dp:4");
  TrainObserver observer;
  StepJudgement judgement;
  observer.wants_state = [](int64_t) { return true; };
  observer.on_state = [&](const TrainState& before, const TrainStep& step) {
    judgement = judge_step(options, text, before, step);
  };
  train(options, text, observer);
  return judgement;
}

// Catches: a bound that is wider than the gradient in a short type, so that an average passes for a sum.
TEST(Training, AWrongGradientIsFoundInEveryDtype) {
  constexpr std::pair<const char*, ReduceOp> kWrong[] = {{"aten::embedding_dense_backward", ReduceOp::kAvg},
                                                         {"aten::embedding_dense_backward", ReduceOp::kMax},
                                                         {"aten::mm", ReduceOp::kAvg}};
  const auto text = read_text("", 64);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_LT(one_step(dtype, text).verdict, dashboard::Verdict::kExpectedException) << dtype;
    for (const auto& [name, op] : kWrong) {
      const RuleScope scope(name, called(name, op));
      const auto judgement = one_step(dtype, text);
      EXPECT_EQ(judgement.verdict, dashboard::Verdict::kDifferent)
          << dtype << " " << name << " as " << lockstep::name(op) << ": " << judgement.text;
    }
  }
}

}  // namespace
}  // namespace lockstep::suites
