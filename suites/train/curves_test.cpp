// SPDX-License-Identifier: Apache-2.0
// Curves: how far a run lies from one device, what gates ask of it, and what the table says.
#include "suites/train/curves.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/values/spec.h"
#include "suites/train/text.h"

namespace lockstep::suites {
namespace {

TrainOptions quick() {
  TrainOptions options;
  options.steps = 3;
  options.batch = 2;
  options.sequence = 16;
  return options;
}

// Catches: policies that do not reach the run, gates that pass whatever they get.
TEST(Curves, SeparatePolicies) {
  CurvesOptions options{.train = quick(), .meshes = {parse_mesh("tp:2")}};
  const auto text = read_text("", 16);
  const auto one = curves(options, text);
  options.jobs = 2;
  const auto two = curves(options, text);
  ASSERT_EQ(one.curves.size(), 8U);
  for (size_t i = 0; i < one.curves.size(); ++i)
    EXPECT_EQ(one.curves[i].steps.back().chain, two.curves[i].steps.back().chain) << label(one.curves[i]);
  for (const auto& gate : one.gates) EXPECT_TRUE(gate.passed) << gate.rule << ": " << gate.got;
  EXPECT_TRUE(one.passed());
  EXPECT_NE(one.indexed_reference.back().chain, one.reference.back().chain);
  const auto& indexed = one.curves.back();
  EXPECT_EQ(label(indexed), "tp:2 indexed");
  EXPECT_FALSE(indexed.judgements.empty());
  EXPECT_EQ(&one.reference_of(indexed), &one.indexed_reference);
  // Dropout alone: the first values, and so the model, are still the reference's.
  EXPECT_LT(one.curves[2].max_abs, one.curves[1].max_abs);
  EXPECT_NE(markdown_table(options, one).find("| tp:2 | offset-based | init+dropout | 0 of 3 | step 1 |"),
            std::string::npos)
      << markdown_table(options, one);
}

TrainStep step_of(int64_t step, float loss, float norm = 1) {
  TrainStep result;
  result.norm = static_cast<double>(norm);
  result.norm_bits = std::bit_cast<uint32_t>(norm);
  result.step = step;
  result.loss = static_cast<double>(loss);
  result.loss_bits = std::bit_cast<uint32_t>(loss);
  return result;
}

// Catches: a prefix that goes on after the first difference, a distance that forgets NaN, a gate that is not
// strict.
TEST(Curves, ComparisonFindsTheFirstDifference) {
  const std::vector<TrainStep> reference = {step_of(1, 4.0F), step_of(2, 3.0F), step_of(3, 2.0F)};
  Curve same{.mesh = parse_mesh("tp:2"), .steps = reference};
  compare_with_reference(same, reference, c10::ScalarType::Float);
  EXPECT_EQ(same.identical_steps, 3);
  EXPECT_EQ(same.first_difference, 0);

  Curve next{.mesh = parse_mesh("tp:2"), .steps = reference};
  next.steps[1] = step_of(2, std::nextafter(3.0F, 4.0F));
  compare_with_reference(next, reference, c10::ScalarType::Float);
  EXPECT_EQ(next.identical_steps, 1);
  EXPECT_EQ(next.first_difference, 2);
  EXPECT_EQ(next.max_ulp, 1);
  EXPECT_TRUE(judge({next}, c10::kFloat).at(0).passed);
  EXPECT_FALSE(judge({next}, c10::kFloat).at(1).passed);  // the first difference was not judged
  next.judgements = {{1, dashboard::Verdict::kEqual, ""}, {2, dashboard::Verdict::kExplained, ""}};
  EXPECT_TRUE(judge({next}, c10::kFloat).at(1).passed);
  next.judgements[1].verdict = dashboard::Verdict::kNondeterministic;
  EXPECT_FALSE(judge({next}, c10::kFloat).at(1).passed);

  Curve lost{.mesh = parse_mesh("tp:2"), .steps = reference};
  lost.steps[2] = step_of(3, std::numeric_limits<float>::quiet_NaN());
  compare_with_reference(lost, reference, c10::ScalarType::Float);
  EXPECT_FALSE(judge({lost}, c10::kFloat).at(0).passed);

  Curve baseline = next;
  baseline.policy = RandomPolicy::kOffsetBased;
  EXPECT_FALSE(judge({next, baseline}, c10::kFloat).at(2).passed);  // no farther than the single device
}

// Catches: a step that differs in its gradient norm alone, of which the table says "step 1, ulp 0".
TEST(Curves, ComparisonKeepsLossAndNormApart) {
  const std::vector<TrainStep> reference = {step_of(1, 4.0F, 2.0F), step_of(2, 3.0F, 2.0F)};
  Curve curve{.mesh = parse_mesh("tp:2"), .steps = reference};
  curve.steps[1] = step_of(2, 3.0F, 2.0000005F);
  compare_with_reference(curve, reference, c10::ScalarType::Float);
  EXPECT_EQ(curve.first_difference, 2);
  EXPECT_EQ(curve.max_ulp, 0);
  EXPECT_EQ(curve.max_abs, 0);
  EXPECT_EQ(curve.max_norm_ulp, 2);
  EXPECT_EQ(curve.max_norm_abs, 0x1p-21);
  CurvesOptions options{.train = quick(), .meshes = {}};
  options.train.steps = 2;
  const auto table = markdown_table(options, {.reference = reference, .curves = {curve}});
  EXPECT_NE(table.find("| tp:2 | single-device | init+dropout | 1 of 2 | step 2 | 0 | 0 | 2 | 4.77e-07 |"),
            std::string::npos)
      << table;
  curve.steps[1] = step_of(2, 3.0F, std::numeric_limits<float>::infinity());
  compare_with_reference(curve, reference, c10::ScalarType::Float);
  EXPECT_TRUE(std::isinf(curve.max_norm_abs));
}

// Catches: a first difference or other choice that is not judged, or twice; a run after it that is judged as
// seldom as one whose loss has a limit; a state that is kept for nothing, or missing where it is wanted; a
// step that is left out though all are asked for.
TEST(Curves, WhichStepsAreJudged) {
  JudgedSteps all(true);
  for (int64_t step = 1; step <= 60; ++step)
    EXPECT_TRUE(all.may_judge(step, false) && all.judges(step, false, false)) << step;
  // The loss differs from step 5 on, the choices from step 7.
  for (const bool experts : {false, true}) {
    JudgedSteps steps;
    std::vector<int64_t> wanted, judged;
    for (int64_t step = 1; step <= 60; ++step) {
      if (steps.may_judge(step, experts)) wanted.push_back(step);
      if (steps.judges(step, step >= 5, experts && step >= 7)) judged.push_back(step);
    }
    using Steps = std::vector<int64_t>;
    EXPECT_EQ(wanted,
              experts ? Steps({1, 2, 3, 4, 5, 6, 7, 10, 20, 30, 40, 50, 60}) : Steps({1, 2, 3, 4, 5, 50}));
    EXPECT_EQ(judged, experts ? Steps({1, 2, 3, 5, 7, 10, 20, 30, 40, 50, 60}) : Steps({1, 2, 3, 5, 50}));
  }
}

// Catches: a limit on the loss where tokens go to other experts, or none before; a first such step that
// nobody has judged; baselines that are to be a hundred times farther than what has no limit.
TEST(Curves, ATokenAtAnotherExpertEndsTheLimit) {
  std::vector<TrainStep> reference = {step_of(1, 4.0F), step_of(2, 3.0F), step_of(3, 2.0F)};
  for (auto& step : reference) step.choices = {0, 3, 1, 2};
  Curve curve{.mesh = parse_mesh("ep:2"), .steps = reference};
  curve.steps[2] = step_of(3, 2.5F);
  const auto of = [&](std::vector<int32_t> choices, std::vector<StepJudgement> judgements) {
    auto one = curve;
    one.steps[2].choices = std::move(choices);
    one.judgements = std::move(judgements);
    compare_with_reference(one, reference, c10::ScalarType::Float);
    return one;
  };
  using enum dashboard::Verdict;
  const auto same = of({0, 3, 1, 2}, {{1, kEqual, ""}, {3, kExplained, ""}});
  EXPECT_EQ(same.other_choices, 0);
  EXPECT_FALSE(judge({same}, c10::kFloat).at(0).passed);
  const auto others = of({0, 2, 1, 3}, {{1, kEqual, ""}, {3, kExplained, ""}});
  EXPECT_EQ(others.choices, 12);
  EXPECT_EQ(others.other_choices, 2);
  EXPECT_EQ(others.first_other_choice, 3);
  EXPECT_TRUE(judge({others}, c10::kFloat).at(0).passed);
  EXPECT_TRUE(judge({others}, c10::kFloat).at(1).passed);
  EXPECT_FALSE(judge({of({0, 2, 1, 3}, {{1, kEqual, ""}, {3, kDifferent, ""}})}, c10::kFloat).at(1).passed);
  auto unjudged = others;
  unjudged.first_difference = 1;
  unjudged.judgements.pop_back();
  EXPECT_FALSE(judge({unjudged}, c10::kFloat).at(1).passed);
  auto early = others;
  early.max_abs_before = 1;
  EXPECT_FALSE(judge({early}, c10::kFloat).at(0).passed);
  auto near = others;
  near.max_abs_before = 0.001;
  auto baseline = near;
  baseline.policy = RandomPolicy::kOffsetBased;
  EXPECT_TRUE(judge({near, baseline}, c10::kFloat).back().passed);
  near.max_abs_before = 0.01;
  EXPECT_FALSE(judge({near, baseline}, c10::kFloat).back().passed);
  near.first_other_choice = 1;  // there is nothing to limit
  EXPECT_EQ(judge({near}, c10::kFloat).size(), 1u);
  CurvesOptions options{.train = quick(), .meshes = {}};
  const auto note = markdown_table(options, {.reference = reference, .curves = {others}});
  EXPECT_NE(
      note.find("On ep:2 single-device 2 of 12 choices of experts are others than those of one device, the "
                "first in step 3"),
      std::string::npos)
      << note;
}

// Catches: single precision's limit on a model that rounds coarser; a model that nothing is asked of.
TEST(Curves, HalfPrecisionHasNoKnownLimit) {
  const std::vector<TrainStep> reference = {step_of(1, 4.0F)};
  Curve far{.mesh = parse_mesh("tp:2"), .steps = {step_of(1, 4.001F)}};
  compare_with_reference(far, reference, c10::ScalarType::Float);
  far.judgements = {{1, dashboard::Verdict::kExplained, ""}};
  Curve baseline = far;
  baseline.policy = RandomPolicy::kOffsetBased;
  for (const auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kHalf}) {
    const bool limited = dtype == c10::kFloat || dtype == c10::kDouble;
    const auto gates = judge({far, baseline}, dtype);
    ASSERT_EQ(gates.size(), limited ? 3U : 2U);
    EXPECT_EQ(gates[0].passed, !limited) << gates[0].rule;
    EXPECT_FALSE(gates.back().passed);  // the baseline is no farther
    auto twice = baseline;
    twice.max_abs *= 2;
    EXPECT_EQ(judge({far, twice}, dtype).back().passed, !limited);
    far.judgements[0].verdict = dashboard::Verdict::kDifferent;
    EXPECT_FALSE(judge({far}, dtype).back().passed);  // not explained
    far.judgements[0].verdict = dashboard::Verdict::kExplained;
    CurvesOptions options{.train = quick(), .meshes = {}};
    options.train.dtype = dtype;
    const auto note =
        markdown_table(options, {.curves = {far}}).find("No limit is known for what is computed in ");
    EXPECT_EQ(note == std::string::npos, limited);
  }
}

}  // namespace
}  // namespace lockstep::suites
