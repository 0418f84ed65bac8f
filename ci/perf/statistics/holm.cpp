// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/holm.h"

#include <algorithm>
#include <numeric>

namespace lockstep::perf {

std::vector<double> holm(std::span<const double> p, size_t family) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double greatest = 0;
  size_t left = std::max(family, p.size());
  for (const size_t i : order) {
    greatest = std::max(greatest, std::min(1.0, static_cast<double>(left) * p[i]));
    corrected[i] = greatest;
    --left;
  }
  return corrected;
}

}  // namespace lockstep::perf
