// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/judge_series.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ci/perf/measured.h"
#include "ci/perf/sentences.h"
#include "ci/perf/statistics/history.h"
#include "ci/perf/statistics/turns.h"

namespace lockstep::perf {
namespace {

// A judgement and whether its series should be measured again.
struct Judged {
  SeriesJudgement judgement{};
  bool wants_second = false;
};

std::optional<double> finite(double x) {
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

// A difference of two timings is now and then not positive; a series that is so more often has no ratio.
bool has_ratio(const Measured& m) {
  constexpr int64_t kOneIn = 10;
  const auto& all = m.samples;
  const auto count = [&](auto&& is) { return std::count_if(all.begin(), all.end(), is); };
  if (count([](const auto& s) { return !std::isfinite(s.value); }) > 0) return false;
  return kOneIn * count([](const auto& s) { return s.value <= 0; }) <= static_cast<int64_t>(all.size());
}

std::vector<double> of_candidate(const Measured& m) {
  auto values = m.values(kCandidate);
  return values.empty() ? m.values(kPlain) : values;
}

SeriesJudgement described(const Measured& m, const char* against) {
  SeriesJudgement j;
  j.series = m.series.name;
  j.area = m.series.area;
  j.kind = m.series.counted ? "counted" : "timed";
  j.against = against;
  j.better = m.series.more_is_better ? "more" : "less";
  j.unit = m.series.unit;
  return j;
}

// What a series is compared with, if it is.
const char* kind_of_comparison(const Measured& m) {
  if (m.series.counted) return "exact";
  return m.values(kBaseline).empty() ? "history" : "turns";
}

SeriesJudgement not_measured(const Measured& m, const char* reason, std::string detail) {
  SeriesJudgement j = described(m, kind_of_comparison(m));
  j.reason = reason;
  j.detail = std::move(detail);
  return j;
}

const char* verdict_of(Finding finding, bool more_is_better) {
  if (finding == Finding::kNone) return "same";
  if (finding == Finding::kNotMeasured) return "not measured";
  return (finding == Finding::kMore) == more_is_better ? "faster" : "slower";
}

const char* text_of(Reason reason) {
  constexpr const char* kTexts[] = {"", "few", "noise", "unconfirmed", "unsteady"};
  return kTexts[static_cast<size_t>(reason)];
}

SeriesJudgement of_turns(const Measured& m, const TurnsVerdict& v, size_t family, const Policy& policy) {
  SeriesJudgement j = described(m, "turns");
  const Paired& judged = v.second.n > 0 ? v.second : v.first;
  j.verdict = verdict_of(v.finding, m.series.more_is_better);
  j.reason = text_of(v.reason);
  j.samples = v.first.n + v.second.n;
  j.ratio = std::exp(judged.effect);
  if (std::isfinite(judged.low)) j.low = std::exp(judged.low);
  if (std::isfinite(judged.high)) j.high = std::exp(judged.high);
  j.p = v.p;
  j.detectable = finite(std::expm1(v.detectable));
  j.false_alarms = v.false_alarms;
  j.baseline_value = median(m.values(kBaseline));
  j.candidate_value = median(m.values(kCandidate));
  j.confirmed = v.confirmed;
  j.detail = turns_sentence(j, family, policy);
  return j;
}

std::vector<Judged> judge_in_turns(const std::vector<const Measured*>& series, size_t family,
                                   const Policy& policy) {
  std::vector<Turns> turns;
  for (const auto* m : series)
    turns.push_back({m->series.name, m->log_ratios(kCandidate, kBaseline), m->log_ratios(kCandidate, kAgain),
                     m->log_ratios(kConfirmCandidate, kConfirmBaseline)});
  const auto verdicts = judge_turns(turns, family, policy);
  std::vector<Judged> result;
  for (size_t i = 0; i < series.size(); ++i)
    result.push_back({of_turns(*series[i], verdicts[i], family, policy), verdicts[i].wants_second});
  return result;
}

Judged of_history(const Measured& m, const History& history, const HistoryVerdict& v, const Policy& policy) {
  SeriesJudgement j = described(m, "history");
  j.verdict = verdict_of(v.finding, m.series.more_is_better);
  j.reason = history.points.empty() ? "new" : text_of(v.reason);
  j.samples = v.points;
  j.candidate_value = history.newest;
  if (!history.points.empty()) {
    j.ratio = std::exp(v.effect);
    j.baseline_value = history.newest / *j.ratio;
  }
  if (std::isfinite(v.band)) {
    j.low = std::exp(v.effect - v.band);
    j.high = std::exp(v.effect + v.band);
    j.false_alarms = v.false_alarms;
  }
  j.detectable = finite(std::expm1(v.detectable));
  j.confirmed = v.confirmed;
  j.detail = history_sentence(j, policy);
  return {j, v.wants_second};
}

std::vector<Judged> judge_by_history(const std::vector<const Measured*>& series, const Series& candidate,
                                     const dashboard::Store* baseline, size_t family, const Policy& policy) {
  if (series.empty()) return {};
  const auto points =
      baseline == nullptr ? std::map<std::string, std::vector<double>>{} : histories(*baseline, candidate);
  std::vector<History> all;
  for (const auto* m : series) {
    History history{.newest = median(of_candidate(*m))};
    if (const auto found = points.find(m->series.name); found != points.end()) history.points = found->second;
    if (const auto again = m->values(kConfirmCandidate); !again.empty()) history.second = median(again);
    all.push_back(std::move(history));
  }
  const auto verdicts = judge_histories(all, family, policy);
  std::vector<Judged> result;
  for (size_t i = 0; i < series.size(); ++i)
    result.push_back(of_history(*series[i], all[i], verdicts[i], policy));
  return result;
}

bool all_equal(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double x) { return x == values.front(); });
}

// Every sample of the arms, together.
std::vector<double> of_arms(const Measured& m, std::initializer_list<std::string_view> arms) {
  std::vector<double> values;
  for (const auto arm : arms)
    for (const double x : m.values(arm)) values.push_back(x);
  return values;
}

// Libraries choose their code by the processor: its instructions are another number on another one.
bool is_of_the_processor(const Measured& m) {
  return m.series.unit == "instructions";
}

// Law: "same" if and only if every sample of the candidate is the one number that every sample of the
// baseline is. Counts that differ among themselves are compared with nothing, nor are instructions of two
// processors.
SeriesJudgement judge_exactly(const Measured& m, const Measured* baseline) {
  if (baseline != nullptr && is_of_the_processor(m) && m.run.cpu != baseline->run.cpu)
    return not_measured(m, "new",
                        "the baseline counted on " + baseline->run.cpu + ", the candidate on " + m.run.cpu);
  const auto candidate = of_arms(m, {kPlain, kCandidate, kAgain, kConfirmCandidate});
  auto other = of_arms(m, {kBaseline, kConfirmBaseline});
  if (other.empty() && baseline != nullptr) other = of_arms(*baseline, {kPlain, kCandidate, kAgain});
  if (!all_equal(candidate))
    return not_measured(m, "nondeterministic", spread_sentence("candidate", candidate));
  if (!all_equal(other)) return not_measured(m, "nondeterministic", spread_sentence("baseline", other));
  if (candidate.empty()) return not_measured(m, "missing", "only the baseline was measured");
  if (other.empty()) return not_measured(m, "new", "the baseline does not have this series");
  SeriesJudgement j = described(m, "exact");
  j.samples = static_cast<int64_t>(candidate.size());
  j.candidate_value = candidate.front();
  j.baseline_value = other.front();
  j.verdict = *j.candidate_value == *j.baseline_value ? "same" : "changed";
  if (*j.baseline_value != 0) j.ratio = *j.candidate_value / *j.baseline_value;
  j.detail = exact_sentence(j);
  return j;
}

const Measured* find(const Series& series, const std::string& name) {
  const auto found = series.find(name);
  return found == series.end() ? nullptr : &found->second;
}

std::vector<Judged> judge_timed(const Series& candidate, const dashboard::Store* baseline,
                                const Policy& policy) {
  std::vector<Judged> result;
  std::vector<const Measured*> turns, alone;
  for (const auto& [name, m] : candidate) {
    if (m.series.counted) continue;
    if (!has_ratio(m)) {
      result.push_back({not_measured(m, "value", "more than one sample in ten is not a positive number")});
    } else if (!m.values(kBaseline).empty()) {
      turns.push_back(&m);
    } else {
      alone.push_back(&m);
    }
  }
  const size_t family = turns.size() + alone.size();
  for (auto& judged : judge_in_turns(turns, family, policy)) result.push_back(std::move(judged));
  for (auto& judged : judge_by_history(alone, candidate, baseline, family, policy))
    result.push_back(std::move(judged));
  return result;
}

std::vector<Judged> judge_all(const dashboard::Store& candidate, const dashboard::Store* baseline,
                              const Policy& policy) {
  const Series ours = newest_series(candidate);
  const Series theirs = baseline == nullptr ? Series{} : newest_series(*baseline, ours);
  auto result = judge_timed(ours, baseline, policy);
  for (const auto& [name, m] : ours)
    if (m.series.counted) result.push_back({judge_exactly(m, find(theirs, name))});
  for (const auto& [name, m] : theirs)
    if (!ours.contains(name))
      result.push_back({not_measured(m, "missing", "the baseline has this series, the candidate does not")});
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.judgement.series < b.judgement.series; });
  return result;
}

}  // namespace

std::vector<SeriesJudgement> judge_series(const dashboard::Store& candidate, const dashboard::Store* baseline,
                                          const Policy& policy) {
  std::vector<SeriesJudgement> result;
  for (auto& judged : judge_all(candidate, baseline, policy)) result.push_back(std::move(judged.judgement));
  return result;
}

std::vector<std::string> series_to_confirm(const dashboard::Store& candidate,
                                           const dashboard::Store* baseline, const Policy& policy) {
  std::vector<std::string> names;
  for (const auto& judged : judge_all(candidate, baseline, policy))
    if (judged.wants_second) names.push_back(judged.judgement.series);
  return names;
}

}  // namespace lockstep::perf
