// SPDX-License-Identifier: Apache-2.0
#include "suites/train/curves.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <mutex>
#include <sstream>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/compare.h"

namespace lockstep::suites {
namespace {

c10::ScalarType loss_scalar_type(const TrainOptions& options) {
  return parse_dtype(loss_dtype(options));
}

TrainOptions run_of(TrainOptions train, const Curve& curve) {
  train.keeps_choices = true;
  train.mesh = curve.mesh;
  train.init = curve.varied == Varied::kDropout ? RandomPolicy::kSingleDevice : curve.policy;
  train.drop = curve.varied == Varied::kInit ? RandomPolicy::kSingleDevice : curve.policy;
  return train;
}

std::vector<Curve> planned(const CurvesOptions& options) {
  std::vector<Curve> curves;
  for (const auto& mesh : options.meshes) {
    curves.push_back({.mesh = mesh});
    if (!options.baselines) continue;
    for (const auto policy : {RandomPolicy::kPerRankSeeds, RandomPolicy::kOffsetBased})
      for (const auto varied : {Varied::kInit, Varied::kDropout, Varied::kBoth})
        curves.push_back({.mesh = mesh, .policy = policy, .varied = varied});
    curves.push_back({.mesh = mesh, .policy = RandomPolicy::kIndexed});
  }
  return curves;
}

bool same_bits(const TrainStep& a, const TrainStep& b) {
  return a.loss_bits == b.loss_bits && a.norm_bits == b.norm_bits;
}

// Judges the steps that a curve must explain, while it runs.
void watch_steps(TrainObserver& observer, const TrainOptions& options, std::string_view text, bool all,
                 const std::vector<TrainStep>& reference, Curve& curve,
                 const std::function<void(const TrainStep&, const StepJudgement&)>& tell) {
  const auto steps = std::make_shared<JudgedSteps>(all);
  const auto expected = [&reference](int64_t step) -> const TrainStep& {
    return reference.at(static_cast<size_t>(step - 1));
  };
  observer.wants_state = [=](int64_t step) {
    return steps->may_judge(step, !expected(step).choices.empty());
  };
  observer.on_state = [=, &curve](const TrainState& before, const TrainStep& step) {
    const auto& other = expected(step.step);
    if (steps->judges(step.step, !same_bits(step, other), step.choices != other.choices))
      tell(step, curve.judgements.emplace_back(judge_step(options, text, before, step)));
  };
}

// Runs work(0) … work(n-1) on some threads; an exception stops the rest and is thrown here.
void run_jobs(size_t n, int64_t jobs, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto loop = [&] {
    try {
      for (size_t mine = next++; mine < n; mine = next++) work(mine);
    } catch (...) {
      next = n;
      throw;
    }
  };
  std::vector<std::future<void>> others;
  for (int64_t i = 1; i < jobs; ++i) others.push_back(std::async(std::launch::async, loop));
  loop();
  for (auto& other : others) other.get();
}

std::string text_of(double value) {
  std::ostringstream out;
  out.precision(2);
  out << std::scientific << value;
  return out.str();
}

std::optional<dashboard::Verdict> verdict_at(int64_t step, const std::vector<StepJudgement>& judgements) {
  for (const auto& j : judgements)
    if (j.step == step) return j.verdict;
  return std::nullopt;
}

// Every judged step is equal or explained, and the steps that had to be judged were.
dashboard::Gate explained(const Curve& curve) {
  dashboard::Gate gate{concat("steps of ", label(curve)), "equal or explained", "", true};
  for (const auto& j : curve.judgements)
    if (j.verdict > dashboard::Verdict::kExplainedOverflow && gate.passed) {
      gate.passed = false;
      gate.got = concat("step ", j.step, " ", dashboard::name(j.verdict), ": ", j.text);
    }
  if (gate.passed) gate.got = concat(curve.judgements.size(), " steps judged");
  for (const int64_t step : {int64_t{1}, curve.first_difference, curve.first_other_choice})
    if (step != 0 && !verdict_at(step, curve.judgements))
      return {gate.rule, gate.required, concat("step ", step, " was not judged"), false};
  return gate;
}

const Curve& single_device(const std::vector<Curve>& curves, const DeviceMesh& mesh) {
  for (const auto& curve : curves)
    if (curve.mesh == mesh && curve.policy == RandomPolicy::kSingleDevice) return curve;
  throw Broken(concat("[curves] no single-device curve on ", to_string(mesh)));
}

// Takes the distance of two numbers with other bits into the farthest so far.
void widen(int64_t& ulp, double& distance, double expected, double actual, c10::ScalarType dtype) {
  ulp = std::max(ulp, oracle::ulp_distance(expected, actual, dtype));
  const double found = std::abs(expected - actual);
  distance = std::max(distance, std::isfinite(found) ? found : std::numeric_limits<double>::infinity());
}

int64_t count_others(const std::vector<int32_t>& expected, const std::vector<int32_t>& actual) {
  if (expected.size() != actual.size()) return std::ssize(actual);
  int64_t others = 0;
  for (size_t i = 0; i < actual.size(); ++i) others += actual[i] != expected[i] ? 1 : 0;
  return others;
}

// How near the loss is while each token has the experts of one device.
dashboard::Gate near(const Curve& curve, double limit) {
  const bool rerouted = curve.first_other_choice > 0;
  const double got = rerouted ? curve.max_abs_before : curve.max_abs;
  return {concat("loss of ", label(curve)),
          concat("within ", text_of(limit),
                 rerouted ? concat(" before step ", curve.first_other_choice,
                                   ", in which a token goes to another expert")
                          : ""),
          text_of(got), got <= limit};
}

std::string distance_of(double distance) {
  return distance == 0 ? std::string("0") : text_of(distance);
}

dashboard::Gate finite_reference(const TrainStep& last) {
  return {"loss and gradient norm of one device", "finite",
          concat("step ", last.step, ": ", last.loss, " and ", last.norm), finite(last)};
}

}  // namespace

std::string label(const Curve& curve) {
  return run_name(run_of({}, curve));
}

std::optional<double> single_device_limit(c10::ScalarType dtype) {
  const bool single = dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
  return single ? std::optional(kSingleDeviceLimit) : std::nullopt;
}

bool CurvesReport::passed() const {
  return std::all_of(gates.begin(), gates.end(), [](const dashboard::Gate& gate) { return gate.passed; });
}

bool JudgedSteps::is_regular(int64_t step) const {
  return all_ || step <= 3 || step % (chose_otherwise_ ? 10 : 50) == 0;
}

bool JudgedSteps::may_judge(int64_t step, bool has_experts) const {
  return is_regular(step) || !differed_ || (has_experts && !chose_otherwise_);
}

bool JudgedSteps::judges(int64_t step, bool differs, bool chooses_otherwise) {
  const bool result = is_regular(step) || (differs && !differed_) || (chooses_otherwise && !chose_otherwise_);
  differed_ |= differs;
  chose_otherwise_ |= chooses_otherwise;
  return result;
}

void compare_with_reference(Curve& curve, const std::vector<TrainStep>& reference,
                            c10::ScalarType loss_dtype) {
  LOCKSTEP_CHECK(curve.steps.size() == reference.size(), "[curves] ", label(curve), " has ",
                 curve.steps.size(), " steps, the reference ", reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto &expected = reference[i], &actual = curve.steps[i];
    if (!same_bits(expected, actual) && curve.first_difference == 0) curve.first_difference = actual.step;
    if (curve.first_difference == 0) ++curve.identical_steps;
    curve.choices += std::ssize(actual.choices);
    const int64_t others = count_others(expected.choices, actual.choices);
    if (others > 0 && curve.other_choices == 0) {
      curve.first_other_choice = actual.step;
      curve.max_abs_before = curve.max_abs;
    }
    curve.other_choices += others;
    if (expected.loss_bits != actual.loss_bits)
      widen(curve.max_ulp, curve.max_abs, expected.loss, actual.loss, loss_dtype);
    if (expected.norm_bits != actual.norm_bits)
      widen(curve.max_norm_ulp, curve.max_norm_abs, expected.norm, actual.norm, loss_dtype);
  }
}

std::vector<dashboard::Gate> judge(const std::vector<Curve>& curves, c10::ScalarType dtype) {
  std::vector<dashboard::Gate> gates;
  const auto limit = single_device_limit(dtype);
  for (const auto& curve : curves) {
    if (agrees_with_reference(curve.policy)) {
      if (limit && curve.first_other_choice != 1) gates.push_back(near(curve, *limit));
      gates.push_back(explained(curve));
    } else if (curve.mesh.size() > 1) {
      const auto& single = single_device(curves, curve.mesh);
      const double far = single.first_other_choice > 1 ? single.max_abs_before : single.max_abs;
      const double least = (limit && single.first_other_choice != 1 ? kBaselineFactor : 1) * far;
      gates.push_back({concat("loss of ", label(curve)), concat("farther than ", text_of(least)),
                       text_of(curve.max_abs), curve.max_abs > least});
    }
  }
  return gates;
}

CurvesReport curves(const CurvesOptions& options, std::string_view text, const CurvesObserver& observer) {
  CurvesReport report{.curves = planned(options)};
  for (const auto& curve : report.curves) check_options(run_of(options.train, curve));
  std::mutex mutex;
  const auto watch = [&](const TrainOptions& run) {
    TrainObserver observe;
    observe.on_step = [&](const TrainStep& step) {
      const std::lock_guard lock(mutex);
      observer.on_step(run, step);
    };
    if (observer.on_timeline && run.mesh)
      observe.on_timeline = [&](int64_t step, const Timeline& timeline) {
        const std::lock_guard lock(mutex);
        observer.on_timeline(run, step, timeline);
      };
    return observe;
  };
  const auto one_device = [&](RandomPolicy policy) {
    auto plain = options.train;
    plain.mesh.reset();
    plain.without = Without::kNothing;
    plain.keeps_choices = true;
    plain.init = plain.drop = policy;
    auto observe = watch(plain);
    observe.goes_on = finite;
    return train(plain, text, observe);
  };
  if (options.team.leads) report.reference = one_device(RandomPolicy::kSingleDevice);
  if (options.team.leads && options.baselines) report.indexed_reference = one_device(RandomPolicy::kIndexed);
  for (const auto* reference : {&report.reference, &report.indexed_reference})
    if (!reference->empty() && !finite(reference->back()) && report.gates.empty())
      report.gates = {finite_reference(reference->back())};
  const bool comparable = report.gates.empty();
  run_jobs(report.curves.size(), options.jobs, [&](size_t i) {
    auto& curve = report.curves[i];
    const auto run = run_of(options.train, curve);
    auto observe = watch(run);
    observe.begins = [&] { return comparable; };
    if (agrees_with_reference(curve.policy))
      watch_steps(observe, run, text, options.judges_all, report.reference_of(curve), curve,
                  [&](const TrainStep& step, const StepJudgement& judgement) {
                    const std::lock_guard lock(mutex);
                    observer.on_judgement(run, step, judgement);
                  });
    curve.steps = train(options.team, run, text, observe);
  });
  if (!comparable || !options.team.leads) {
    report.curves.clear();
    return report;
  }
  for (auto& curve : report.curves)
    compare_with_reference(curve, report.reference_of(curve), loss_scalar_type(options.train));
  report.gates = judge(report.curves, coarsest_dtype(options.train));
  return report;
}

std::string markdown_table(const CurvesOptions& options, const CurvesReport& report) {
  std::ostringstream out;
  out << "| mesh | random policy | of | steps with equal bits | first difference | loss: largest ulp | "
         "largest difference | gradient norm: largest ulp | largest difference |\n"
      << "|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& c : report.curves)
    out << "| " << to_string(c.mesh) << " | " << name(c.policy) << " | " << name(c.varied) << " | "
        << c.identical_steps << " of " << options.train.steps << " | "
        << (c.first_difference == 0 ? std::string("none") : concat("step ", c.first_difference)) << " | "
        << c.max_ulp << " | " << distance_of(c.max_abs) << " | " << c.max_norm_ulp << " | "
        << distance_of(c.max_norm_abs) << " |\n";
  out << "\nSteps and the first difference are of the bits of loss and gradient norm together.\n";
  for (const auto& c : report.curves)
    if (c.choices > 0 && agrees_with_reference(c.policy))
      out << "\nOn " << label(c) << (c.other_choices == 0 ? " all " : concat(" ", c.other_choices, " of "))
          << c.choices << " choices of experts are "
          << (c.other_choices == 0
                  ? std::string("those of one device.")
                  : concat("others than those of one device, the first in step ", c.first_other_choice,
                           ": the order of scores decides them, and no limit is known from there on. "
                           "Before, the largest difference of the loss is ",
                           distance_of(c.max_abs_before), "."))
          << "\n";
  if (!single_device_limit(coarsest_dtype(options.train)))
    out << "\nNo limit is known for what is computed in " << dtype_name(coarsest_dtype(options.train))
        << ": veScale's " << text_of(kSingleDeviceLimit)
        << " is of single precision. Judged are the explanations, and that the baselines are farther at "
           "all.\n";
  if (!report.indexed_reference.empty())
    out << "\nThe indexed policy is compared with one device that draws the indexed numbers, the others with "
           "one that draws stock's.\n";
  return out.str();
}

}  // namespace lockstep::suites
