// SPDX-License-Identifier: Apache-2.0
// What the differences between one binary and itself say of a series: which effect would show, and how often
// the binary would be blamed for nothing.
#pragma once
#include <cstdint>
#include <span>

#include "ci/perf/statistics/policy.h"
#include "ci/perf/statistics/signed_rank.h"

namespace lockstep::perf {

// How rounds resemble the round before them: the sums of an estimate of correlation, so that series can be
// put together.
struct Resemblance {
  double product = 0, square = 0;  // of neighbours; of values
  double values = 0, batches = 0;

  void add(std::span<const double> batch);
  void add(const Resemblance& other);
  // The variance of a mean of such rounds over that of independent ones: (1 + r) / (1 - r), r corrected for
  // the bias of short batches. 1 unless r is beyond `limit` standard errors.
  double dependence(double limit) const;
};

// The level at which the test has to reject so that, with this dependence, it rejects at `level`.
double strict_level(double level, double dependence);

struct NoiseFacts {
  double detectable = 0;    // log ratio; infinite where these rounds find nothing
  double false_alarms = 0;  // rate
};

// Law: `detectable` is the least shift that both batches, drawn anew from `same`, find in `policy.power` of
// the trials, level and floor included; `false_alarms` is the share of trials in which they agree on an alarm
// without a shift. Batches are drawn in blocks of neighbouring rounds, each block with its sign or turned,
// since the two arms are one binary; signs are kept where `same` itself is displaced beyond the level.
NoiseFacts resample(std::span<const double> same, const SignedRank& null, double level, const Policy& policy,
                    uint64_t seed);

}  // namespace lockstep::perf
