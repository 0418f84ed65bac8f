// SPDX-License-Identifier: Apache-2.0
#include "ci/program/bench_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/values/exit_code.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::ordered_json;
using perf::SeriesJudgement;

bool is_worse(const SeriesJudgement& j) {
  if (j.verdict != "changed") return j.verdict == "slower";
  const bool more = j.candidate_value.value_or(0) > j.baseline_value.value_or(0);
  return more != (j.better == "more");
}

template <class... Args>
std::string format(const char* form, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, form, args...);
  return text;
}

std::string percent(const std::optional<double>& x) {
  return x ? format("%.1f%%", 100 * *x) : "-";
}

std::string ratio_of(const SeriesJudgement& j) {
  if (!j.ratio) return "-";
  const auto ratio = format("%.3f", *j.ratio);
  return j.low && j.high ? ratio + format(" [%.3f %.3f]", *j.low, *j.high) : ratio;
}

// The middle sample of the first arm, and how far the middle half of them reaches.
struct Middle {
  double median = 0, low = 0, high = 0;
  size_t samples = 0;
};

Middle middle_of(const BenchResult& result, const std::string& series) {
  std::vector<double> values;
  const auto arm = result.samples.front().arm;
  for (const auto& s : result.samples)
    if (s.series == series && s.arm == (result.judgements.empty() ? arm : std::string(perf::kCandidate)))
      values.push_back(s.value);
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) { return values[static_cast<size_t>(q * double(values.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.25), at(0.75), values.size()};
}

size_t widest_name(const BenchResult& result) {
  size_t width = 6;
  for (const auto& s : result.series) width = std::max(width, s.name.size());
  return width;
}

int digits(const dashboard::Series& s) {
  return s.counted ? 12 : 5;
}

std::string plain_row(const dashboard::Series& s, const Middle& m, int width) {
  const auto unit = s.unit == "1" ? "" : s.unit.c_str();
  auto row = format("%-*s %12.*g %-13s", width, s.name.c_str(), digits(s), m.median, unit);
  return s.counted ? row + "exact\n" : row + format("[%.5g %.5g]\n", m.low, m.high);
}

std::string judged_row(const dashboard::Series& s, const Middle& m, const SeriesJudgement& j, int width) {
  const auto unit = s.unit == "1" ? "" : s.unit.c_str();
  auto verdict = j.verdict;
  if (!j.reason.empty()) verdict += " (" + j.reason + ")";
  return format("%-*s %12.*g %-13s %-22s %10s %11s  %s\n", width, s.name.c_str(), digits(s), m.median, unit,
                ratio_of(j).c_str(), percent(j.detectable).c_str(), percent(j.false_alarms).c_str(),
                verdict.c_str());
}

std::string ending(const BenchResult& result) {
  return "database: " + result.db + "\n" + format("exit %d: %s\n", result.code, meaning(result.code));
}

}  // namespace

std::set<int> codes_of(const std::vector<SeriesJudgement>& judgements) {
  std::set<int> codes;
  for (const auto& j : judgements) {
    if (is_worse(j)) codes.insert(kSlower);
    if (j.verdict == "not measured") codes.insert(kNotMeasured);
  }
  return codes;
}

std::string bench_table(const BenchResult& result) {
  const int width = static_cast<int>(widest_name(result));
  std::map<std::string, SeriesJudgement> judged;
  for (const auto& j : result.judgements) judged[j.series] = j;
  std::string text = judged.empty()
                         ? format("%-*s %12s %-13s%s\n", width, "series", "median", "unit", "middle half")
                         : format("%-*s %12s %-13s %-22s %10s %11s  %s\n", width, "series", "median", "unit",
                                  "ratio to baseline", "detectable", "false alarm", "verdict");
  for (const auto& s : result.series) {
    const auto middle = middle_of(result, s.name);
    text += judged.empty() ? plain_row(s, middle, width) : judged_row(s, middle, judged[s.name], width);
  }
  for (const auto& j : result.judgements)
    if (is_worse(j) || j.verdict == "not measured") text += j.series + ": " + j.detail + "\n";
  return text + ending(result);
}

std::string bench_json(const BenchResult& result) {
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  Json all = Json::array();
  std::map<std::string, SeriesJudgement> judged;
  for (const auto& j : result.judgements) judged[j.series] = j;
  for (const auto& s : result.series) {
    const auto middle = middle_of(result, s.name);
    Json row = {{"series", s.name},
                {"area", s.area},
                {"kind", s.counted ? "counted" : "timed"},
                {"better", s.more_is_better ? "more" : "less"},
                {"unit", s.unit},
                {"samples", middle.samples},
                {"median", middle.median}};
    if (const auto it = judged.find(s.name); it != judged.end()) {
      const auto& j = it->second;
      row.update({{"verdict", j.verdict},
                  {"reason", j.reason},
                  {"against", j.against},
                  {"ratio", number(j.ratio)},
                  {"low", number(j.low)},
                  {"high", number(j.high)},
                  {"detectable", number(j.detectable)},
                  {"false_alarms", number(j.false_alarms)},
                  {"detail", j.detail}});
    }
    all.push_back(std::move(row));
  }
  return Json{{"run", result.run.id},
              {"db", result.db},
              {"series", all},
              {"exit_code", result.code},
              {"exit_codes", result.codes},
              {"meaning", meaning(result.code)}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep::program
