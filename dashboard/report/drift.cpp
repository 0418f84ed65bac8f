// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/drift.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep::dashboard {

namespace {

std::vector<DriftPoint> thinned(std::span<const DriftPoint> points) {
  std::vector<DriftPoint> finite, kept;
  for (const auto& p : points)
    if (std::isfinite(p.step) && std::isfinite(p.distance)) finite.push_back(p);
  if (finite.size() <= kDriftPoints) return finite;
  for (size_t i = 0; i < kDriftPoints; ++i)
    kept.push_back(finite[i * (finite.size() - 1) / (kDriftPoints - 1)]);
  return kept;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

std::optional<double> drift(std::span<const DriftPoint> points) {
  const auto kept = thinned(points);
  std::vector<double> slopes;
  for (size_t i = 0; i < kept.size(); ++i)
    for (size_t j = i + 1; j < kept.size(); ++j)
      if (kept[i].step != kept[j].step)
        slopes.push_back((kept[j].distance - kept[i].distance) / (kept[j].step - kept[i].step));
  if (slopes.empty()) return std::nullopt;
  return median(slopes);
}

}  // namespace lockstep::dashboard
