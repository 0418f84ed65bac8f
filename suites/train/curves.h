// SPDX-License-Identifier: Apache-2.0
// Loss curves of one training run on several meshes and under several random policies, against the reference:
// how far each lies from what one device computes. Curves of the indexed policy have a reference of their
// own, one device with the indexed numbers: other numbers than the stock stream's, as placement-free as they.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "suites/train/curve_rows.h"
#include "suites/train/step_judgement.h"
#include "suites/train/team.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// veScale's Table 3, LLaMA-3 8B: the farthest that its single-device policy lies from one device. Single
// precision: no limit is known for a narrower model, whose every step rounds coarser than this.
inline constexpr double kSingleDeviceLimit = 6.2e-5;
std::optional<double> single_device_limit(c10::ScalarType dtype);  // of the model; f64 keeps f32's
// How many times farther every baseline must lie, or the comparison shows nothing; where no limit is known,
// rounding takes up most of this room, and farther is enough.
inline constexpr double kBaselineFactor = 100;

struct CurvesOptions {
  TrainOptions train;  // its mesh and policies are not read
  std::vector<DeviceMesh> meshes;
  bool baselines = true;
  bool judges_all = false;  // steps of curves that must agree with their reference, and not only some
  int64_t jobs =
      1;        // runs at a time, one thread each; results do not depend on it; 1 if the team's are in turn
  Team team{};  // who trains on the meshes
};

// One run on one mesh, compared with the reference step by step.
struct Curve {
  DeviceMesh mesh;
  RandomPolicy policy = RandomPolicy::kSingleDevice;
  Varied varied = Varied::kBoth;
  std::vector<TrainStep> steps{};
  // Of a curve that must agree with its reference, in order: steps 1 to 3, every 50th, the first that differs
  // from the reference, and the first whose tokens go to other experts; every 10th from there on. Or, where
  // that is asked, all.
  std::vector<StepJudgement> judgements{};

  int64_t identical_steps = 0;   // the longest prefix of equal bits, of loss and norm
  int64_t first_difference = 0;  // the step that ends it; 0: none
  // The farthest of any step; the distance is infinite where one side is not finite.
  int64_t max_ulp = 0, max_norm_ulp = 0;
  double max_abs = 0, max_norm_abs = 0;

  // Of a model with experts. Which ones a token has is decided by the order of its scores, so that a last bit
  // may decide it; no distance holds from there on.
  int64_t choices = 0;             // of experts, in all steps
  int64_t other_choices = 0;       // of them, how many are not the reference's
  int64_t first_other_choice = 0;  // the first step that has such; 0: none
  double max_abs_before = 0;       // of the loss, before that step; beyond it no limit is known
};
std::string label(const Curve& curve);  // run_name of its run

// Which steps of a curve are judged, as Curve::judgements says, step by step.
class JudgedSteps {
 public:
  // @param all every step
  explicit JudgedSteps(bool all = false) : all_(all) {}
  // Before the step, of a model with experts or none: whether its state may be wanted.
  bool may_judge(int64_t step, bool has_experts) const;
  // After it: whether it is judged.
  bool judges(int64_t step, bool differs, bool chooses_otherwise);

 private:
  bool is_regular(int64_t step) const;
  const bool all_;
  bool differed_ = false, chose_otherwise_ = false;
};

struct CurvesReport {
  std::vector<TrainStep> reference{};
  std::vector<TrainStep> indexed_reference{};  // without baselines: empty
  std::vector<Curve> curves{};
  std::vector<dashboard::Gate> gates{};

  bool passed() const;
  const std::vector<TrainStep>& reference_of(const Curve& curve) const {
    return curve.policy == RandomPolicy::kIndexed ? indexed_reference : reference;
  }
};

// What a caller may watch. Called from one thread at a time; `run` has the mesh, none for the references, and
// the policies.
struct CurvesObserver {
  std::function<void(const TrainOptions& run, const TrainStep& step)> on_step = [](const TrainOptions&,
                                                                                   const TrainStep&) {};
  // Of the steps that must be judged, after on_step.
  std::function<void(const TrainOptions& run, const TrainStep& step, const StepJudgement&)> on_judgement =
      [](const TrainOptions&, const TrainStep&, const StepJudgement&) {};
  // As TrainObserver's, of each curve on a mesh.
  std::function<void(const TrainOptions& run, int64_t step, const Timeline&)> on_timeline = nullptr;
};

// The reference first, then every curve; options.jobs at a time. A reference whose loss or gradient norm is
// not finite ends there, and nothing is compared with it: one gate says so. All of a team call it; where
// others lead, the report says nothing.
CurvesReport curves(const CurvesOptions& options, std::string_view text, const CurvesObserver& observer = {});

// Fills the fields of comparison. @pre curve.steps and reference have the same steps
void compare_with_reference(Curve& curve, const std::vector<TrainStep>& reference,
                            c10::ScalarType loss_dtype);
// Single-device and indexed curves within the limit, where one is known for the model's dtype, and explained
// where they were judged; each baseline of more than one rank farther than the single-device curve, there
// kBaselineFactor times as far.
std::vector<dashboard::Gate> judge(const std::vector<Curve>& curves, c10::ScalarType dtype);

// One row for each curve, and what was not judged.
std::string markdown_table(const CurvesOptions& options, const CurvesReport& report);

}  // namespace lockstep::suites
