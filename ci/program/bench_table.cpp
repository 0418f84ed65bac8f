// SPDX-License-Identifier: Apache-2.0
#include "ci/program/bench_run.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/values/exit_code.h"
#include "suites/bench/measure.h"

namespace lockstep::program {
namespace {

using suites::median;
using Json = nlohmann::ordered_json;

template <class... Args>
std::string format(const char* form, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, form, args...);
  return text;
}

bool all_equal(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// What is known of one series.
struct Row {
  std::vector<double> mine, theirs;  // ascending
  std::string verdict;               // empty: nothing was compared
};

const char* verdict_of(const dashboard::Series& s, const Row& row) {
  if (row.mine.empty() || row.theirs.empty()) return "new";
  if (!s.counted) return "not judged";
  if (!all_equal(row.mine) || !all_equal(row.theirs)) return "nondeterministic";
  if (row.mine[0] == row.theirs[0]) return "same";
  return (row.mine[0] > row.theirs[0]) == s.more_is_better ? "better" : "worse";
}

Row row_of(const BenchResult& result, const dashboard::Series& s) {
  Row row{values_of(result.samples, s.name, result.compared ? kCandidate : kPlain),
          values_of(result.samples, s.name, kBaseline), ""};
  std::sort(row.mine.begin(), row.mine.end());
  std::sort(row.theirs.begin(), row.theirs.end());
  if (result.compared) row.verdict = verdict_of(s, row);
  return row;
}

double at(const std::vector<double>& sorted, double q) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(q * double(sorted.size() - 1) + 0.5)];
}

std::optional<double> ratio_of(const Row& row) {
  if (row.mine.empty() || row.theirs.empty() || median(row.theirs) == 0) return std::nullopt;
  return median(row.mine) / median(row.theirs);
}

std::string line(const dashboard::Series& s, const Row& row, int width) {
  const auto unit = s.unit == "1" ? "" : s.unit.c_str();
  auto text =
      format("%-*s %12.*g %-13s ", width, s.name.c_str(), s.counted ? 12 : 5, at(row.mine, 0.5), unit);
  text += s.counted ? "exact" : format("[%.5g %.5g]", at(row.mine, 0.25), at(row.mine, 0.75));
  const auto ratio = ratio_of(row);
  if (!row.verdict.empty()) text += "  ratio " + (ratio ? format("%.3f", *ratio) : "-") + "  " + row.verdict;
  return text + "\n";
}

}  // namespace

std::vector<double> values_of(const std::vector<suites::Sample>& samples, std::string_view series,
                              std::string_view arm) {
  std::vector<double> values;
  for (const auto& s : samples)
    if (s.series == series && s.arm == arm) values.push_back(s.value);
  return values;
}

std::set<int> codes_of(const BenchResult& result) {
  std::set<int> codes;
  for (const auto& s : result.series) {
    const auto verdict = row_of(result, s).verdict;
    if (verdict == "worse") codes.insert(kSlower);
    if (verdict == "not judged" || verdict == "nondeterministic") codes.insert(kNotMeasured);
  }
  return codes;
}

std::string bench_table(const BenchResult& result) {
  size_t width = 6;
  for (const auto& s : result.series) width = std::max(width, s.name.size());
  auto text = format("%-*s %12s %-13s %s\n", int(width), "series", "median", "unit", "middle half");
  for (const auto& s : result.series) text += line(s, row_of(result, s), int(width));
  const auto codes = codes_of(result);
  const int code = winning(codes);
  if (codes.contains(kNotMeasured))
    text += "whether a timed series is slower, `ci/speed " + result.db + "` says\n";
  return text + "database: " + result.db + "\n" + format("exit %d: %s\n", code, meaning(code));
}

std::string bench_json(const BenchResult& result) {
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  Json all = Json::array();
  for (const auto& s : result.series) {
    const auto row = row_of(result, s);
    all.push_back({{"series", s.name},
                   {"area", s.area},
                   {"kind", s.counted ? "counted" : "timed"},
                   {"better", s.more_is_better ? "more" : "less"},
                   {"unit", s.unit},
                   {"samples", row.mine.size()},
                   {"median", at(row.mine, 0.5)}});
    if (result.compared) all.back().update({{"verdict", row.verdict}, {"ratio", number(ratio_of(row))}});
  }
  const auto codes = codes_of(result);
  return Json{{"run", result.run.id},        {"db", result.db},     {"series", all},
              {"exit_code", winning(codes)}, {"exit_codes", codes}, {"meaning", meaning(winning(codes))}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep::program
