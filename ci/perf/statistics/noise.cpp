// SPDX-License-Identifier: Apache-2.0
// Blocks: Kuensch, Annals of Statistics 17 (1989), here on a circle (Politis and Romano, 1992).
#include "ci/perf/statistics/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ci/perf/statistics/paired.h"

namespace lockstep::perf {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// One batch of n rounds: blocks of neighbours, from anywhere on the circle.
std::vector<double> draw(std::span<const double> same, bool turn, std::mt19937_64& random) {
  const size_t n = same.size();
  const auto block = static_cast<size_t>(std::ceil(std::cbrt(static_cast<double>(n))));
  std::vector<double> batch;
  while (batch.size() < n) {
    const uint64_t bits = random();
    const double sign = turn && (bits & 1) != 0 ? -1 : 1;
    const size_t start = (bits >> 1) % n;
    for (size_t i = 0; i < block && batch.size() < n; ++i) batch.push_back(sign * same[(start + i) % n]);
  }
  return batch;
}

}  // namespace

// Values are cut at three deviations, or one outlier would be all of the square.
void Resemblance::add(std::span<const double> batch) {
  const double center = median({batch.begin(), batch.end()});
  std::vector<double> centered, sizes;
  for (const double x : batch) {
    centered.push_back(x - center);
    sizes.push_back(std::abs(x - center));
  }
  const double limit = 3 * 1.4826 * median(sizes);  // of normal values, the deviation is 1.4826 such medians
  if (limit <= 0) return;
  for (double& x : centered) x = std::clamp(x / limit, -1.0, 1.0);
  for (size_t i = 0; i + 1 < centered.size(); ++i) product += centered[i] * centered[i + 1];
  for (const double x : centered) square += x * x;
  values += static_cast<double>(batch.size());
  batches += 1;
}

void Resemblance::add(const Resemblance& other) {
  product += other.product;
  square += other.square;
  values += other.values;
  batches += other.batches;
}

// The bias of the estimate is -(1 + 3 r) / n for a batch of n (Kendall, Biometrika 41, 1954).
double Resemblance::dependence(double limit) const {
  if (square == 0 || values <= 4 * batches) return 1;
  const double bias = batches / values, r = product / square;
  if (r + bias <= limit / std::sqrt(values)) return 1;
  const double corrected = std::min(0.9, (r + bias) / (1 - 3 * bias));
  return (1 + corrected) / (1 - corrected);
}

double strict_level(double level, double dependence) {
  if (dependence <= 1) return level;
  return 2 * normal_at_most(normal_quantile(level / 2) * std::sqrt(dependence));
}

NoiseFacts resample(std::span<const double> same, const SignedRank& null, double level, const Policy& policy,
                    uint64_t seed) {
  if (same.empty()) return {std::numeric_limits<double>::infinity(), 0};
  std::mt19937_64 random(seed);
  const Paired itself = compare(same, null, level);
  const double sure = std::max(policy.alpha / 10, null.two_sided(null.greatest()));
  const bool displaced = itself.p <= sure && std::abs(itself.effect) > policy.floor;
  std::vector<double> needed;
  int alarms = 0;
  for (int trial = 0; trial < policy.resamples; ++trial) {
    double shift = 0;
    bool up = true, down = true;
    for (int batch = 0; batch < 2; ++batch) {
      const Paired found = compare(draw(same, !displaced, random), null, level);
      shift = std::max({shift, -found.low, policy.floor - found.effect});
      up = up && found.low > 0 && found.effect > policy.floor;
      down = down && found.high < 0 && found.effect < -policy.floor;
    }
    needed.push_back(shift);
    alarms += up || down ? 1 : 0;
  }
  std::sort(needed.begin(), needed.end());
  const auto at = static_cast<size_t>(std::ceil(policy.power * static_cast<double>(needed.size()))) - 1;
  return {needed[at], static_cast<double>(alarms) / policy.resamples};
}

}  // namespace lockstep::perf
