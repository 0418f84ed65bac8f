// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/measured.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ci/perf/arms.h"

namespace lockstep::perf {
namespace {

// Older runs than these are no history that anyone looks at.
constexpr size_t kRuns = 240;

bool same_run(const dashboard::MeasuredRun& a, const dashboard::MeasuredRun& b) {
  return a.name == b.name && a.build_hash == b.build_hash;
}

bool same_machine(const dashboard::MeasuredRun& a, const dashboard::MeasuredRun& b) {
  return a.cpu == b.cpu && a.cores == b.cores;
}

bool is_in(const dashboard::MeasuredRun& run, const Series& series) {
  return std::any_of(series.begin(), series.end(),
                     [&](const auto& entry) { return same_run(entry.second.run, run); });
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::vector<double> Measured::values(std::string_view arm) const {
  std::vector<double> found;
  for (const auto& sample : samples)
    if (sample.arm == arm) found.push_back(sample.value);
  return found;
}

std::vector<double> Measured::log_ratios(std::string_view a, std::string_view b) const {
  std::vector<double> all;
  for (const auto& sample : samples) all.push_back(sample.value);
  const double least = median(all) / 1000;
  std::map<std::pair<std::string, int64_t>, double> other;
  for (const auto& sample : samples)
    if (sample.arm == b) other[{sample.worker, sample.seq}] = sample.value;
  std::vector<double> ratios;
  for (const auto& sample : samples) {
    if (sample.arm != a) continue;
    const auto pair = other.find({sample.worker, sample.seq});
    if (pair != other.end())
      ratios.push_back(std::log(std::max(sample.value, least) / std::max(pair->second, least)));
  }
  return ratios;
}

Series newest_series(const dashboard::Store& store, const Series& but) {
  Series result;
  std::string build;
  for (const auto& run : dashboard::measured_runs(store)) {
    if (is_in(run, but)) continue;
    if (result.empty()) build = run.build_hash;
    if (run.build_hash != build) continue;
    for (auto& [series, samples] : dashboard::measured_series(store, run.id)) {
      const std::string name = series.name;
      result.try_emplace(name, Measured{std::move(series), run, std::move(samples)});
    }
  }
  return result;
}

std::map<std::string, std::vector<double>> histories(const dashboard::Store& store, const Series& like) {
  std::map<std::string, std::vector<double>> result;
  auto runs = dashboard::measured_runs(store);
  runs.resize(std::min(runs.size(), kRuns));
  std::reverse(runs.begin(), runs.end());
  for (const auto& run : runs) {
    for (const auto& [series, samples] : dashboard::measured_series(store, run.id)) {
      const auto wanted = like.find(series.name);
      if (wanted == like.end() || !same_machine(wanted->second.run, run)) continue;
      if (same_run(wanted->second.run, run)) continue;
      std::vector<double> values;
      for (const auto& sample : samples)
        if (sample.arm == kPlain || sample.arm == kCandidate) values.push_back(sample.value);
      const double value = median(values);
      if (value > 0 && std::isfinite(value)) result[series.name].push_back(value);
    }
  }
  return result;
}

}  // namespace lockstep::perf
