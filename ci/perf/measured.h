// SPDX-License-Identifier: Apache-2.0
// A store's samples, sorted into what is compared: arms, pairs, points of history.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/samples.h"

namespace lockstep::perf {

// One series of one run.
struct Measured {
  dashboard::Series series{};
  dashboard::MeasuredRun run{};
  std::vector<dashboard::Sample> samples{};

  std::vector<double> values(std::string_view arm) const;
  // log(a / b) of the rounds that have both arms. What is less than a thousandth of the median of all samples
  // counts as that: an outlier, which ranks bear, where zero would have no logarithm.
  std::vector<double> log_ratios(std::string_view a, std::string_view b) const;
};

using Series = std::map<std::string, Measured>;  // by name

// Of each series the newest run, among the runs of the build that was measured last. Where a run has the name
// and build of one in `but`, it is passed over.
Series newest_series(const dashboard::Store& store, const Series& but = {});

// Medians of the samples of this series on the machine of `like`, oldest run first, its own run left out.
std::map<std::string, std::vector<double>> histories(const dashboard::Store& store, const Series& like);

// 0 without values.
double median(std::vector<double> values);

}  // namespace lockstep::perf
