// SPDX-License-Identifier: Apache-2.0
#include "suites/train/curve_rows.h"

#include <array>

#include "dashboard/store/recorder.h"
#include "engine/values/error.h"

namespace lockstep::suites {

const char* name(Varied varied) {
  static constexpr std::array kNames = {"init", "dropout", "init+dropout"};
  return kNames.at(static_cast<size_t>(varied));
}

bool agrees_with_reference(RandomPolicy policy) {
  return policy == RandomPolicy::kSingleDevice || policy == RandomPolicy::kIndexed;
}

RunPolicy policy_of(const TrainOptions& run) {
  if (run.init == run.drop) return {run.init, Varied::kBoth};
  if (run.init == RandomPolicy::kSingleDevice) return {run.drop, Varied::kDropout};
  return {run.init, Varied::kInit};
}

std::string run_name(const TrainOptions& run) {
  const auto [policy, varied] = policy_of(run);
  if (!run.mesh) return policy == RandomPolicy::kIndexed ? "one device, indexed" : "one device";
  const bool agrees = agrees_with_reference(policy);
  return concat(to_string(*run.mesh), " ", name(policy), agrees ? "" : concat(" ", name(varied)),
                run.without == Without::kNothing ? "" : concat(", without ", name(run.without)),
                run.statically ? ", static" : "");
}

static std::string in_dtype(const char* what, std::optional<c10::ScalarType> dtype) {
  return dtype ? concat(what, dtype_name(*dtype)) : "";
}

dashboard::Curve curve_row(const TrainOptions& run, const std::string& lane) {
  const auto [policy, varied] = policy_of(run);
  return {.name = run_name(run),
          .model = concat(run.model, " ", run.preset, " ", run.batch, "x", run.sequence,
                          run.optimizer == OptimizerKind::kAdamW ? "" : concat(", ", name(run.optimizer)),
                          in_dtype(", parameters in ", run.precision.param_dtype),
                          in_dtype(", sums in ", run.precision.reduce_dtype),
                          policy == RandomPolicy::kIndexed ? ", indexed numbers" : ""),
          .variant = name(varied),
          .mesh = run.mesh ? to_string(*run.mesh) : "",
          .policy = name(policy),
          .lane = lane,
          .dtype = loss_dtype(run),
          .reference = !run.mesh};
}

void record_step(const TrainOptions& run, const std::string& lane, const TrainStep& step,
                 std::optional<dashboard::Verdict> verdict, dashboard::Recorder& recorder) {
  recorder.record(recorder.open_curve(curve_row(run, lane)),
                  dashboard::CurvePoint{.step = step.step,
                                        .loss_bits = step.loss_bits,
                                        .grad_norm_bits = step.norm_bits,
                                        .chain = step.chain,
                                        .tokens_per_second = step.tokens_per_second,
                                        .peak_bytes = step.peak_bytes,
                                        .verdict = verdict});
  recorder.flush();
}

}  // namespace lockstep::suites
