// SPDX-License-Identifier: Apache-2.0
// Loss curves of one training run on several meshes and under several random policies, against the reference:
// how far each lies from what one device computes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "suites/train/step_judgement.h"
#include "suites/train/train.h"

namespace lockstep::dashboard {
class Recorder;
}

namespace lockstep::suites {

// veScale's Table 3, LLaMA-3 8B: the farthest that its single-device policy lies from one device.
inline constexpr double kSingleDeviceLimit = 6.2e-5;
// How many times farther every baseline must lie, or the comparison shows nothing.
inline constexpr double kBaselineFactor = 100;

// Which draws follow a curve's policy; the others follow the single device's stream.
enum class Varied { kInit, kDropout, kBoth };
const char* name(Varied varied);  // "init", "dropout", "init+dropout"

struct CurvesOptions {
  TrainOptions train;  // its mesh and policies are not read
  std::vector<DeviceMesh> meshes;
  bool baselines = true;
  int64_t jobs = 1;  // runs at a time, one thread each; results do not depend on it
};

// One run on one mesh, compared with the reference step by step.
struct Curve {
  DeviceMesh mesh;
  RandomPolicy policy = RandomPolicy::kSingleDevice;
  Varied varied = Varied::kBoth;
  std::vector<TrainStep> steps{};
  // Of a single-device curve, in order: steps 1 to 3, every 50th, and the first that differs from the
  // reference.
  std::vector<StepJudgement> judgements{};

  int64_t identical_steps = 0;   // the longest prefix of equal bits, of loss and norm
  int64_t first_difference = 0;  // the step that ends it; 0: none
  int64_t max_ulp = 0;           // of the loss
  double max_abs = 0;            // of the loss; infinity where one side is not finite
};
std::string label(const Curve& curve);  // "tp:4 per-rank-seeds dropout"

struct CurveGate {
  std::string rule, required, got;
  bool passed = false;
};

struct CurvesReport {
  std::vector<TrainStep> reference{};
  std::vector<Curve> curves{};
  std::vector<CurveGate> gates{};

  bool passed() const;
};

// What a caller may watch. Called from one thread at a time.
struct CurvesObserver {
  // Of the reference, `curve` is null.
  std::function<void(const Curve* curve, const TrainStep& step)> on_step = [](const Curve*,
                                                                              const TrainStep&) {};
};

// The reference first, then every curve; options.jobs at a time.
CurvesReport curves(const CurvesOptions& options, std::string_view text, const CurvesObserver& observer = {});

// Fills the fields of comparison. @pre curve.steps and reference have the same steps
void compare_with_reference(Curve& curve, const std::vector<TrainStep>& reference,
                            c10::ScalarType loss_dtype);
// Single-device curves within the limit and explained where they were judged; each baseline of more than one
// rank kBaselineFactor times as far.
std::vector<CurveGate> judge(const std::vector<Curve>& curves);

// Rows for the store: one curve for the reference and each run, one gate for each rule.
void record(const CurvesOptions& options, const CurvesReport& report, dashboard::Recorder& recorder);

// The table of the README: one row for each curve.
std::string markdown_table(const CurvesOptions& options, const CurvesReport& report);

}  // namespace lockstep::suites
