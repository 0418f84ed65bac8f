// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/turns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ci/perf/statistics/holm.h"
#include "ci/perf/statistics/noise.h"

namespace lockstep::perf {
namespace {

// One distribution for each number of rounds that occurs.
class Nulls {
 public:
  const SignedRank& of(size_t n) { return nulls_.try_emplace(n, static_cast<int>(n)).first->second; }

 private:
  std::map<size_t, SignedRank> nulls_;
};

// FNV-1a: the same series is resampled alike wherever it stands in the list.
uint64_t seed_of(const std::string& name, uint64_t seed) {
  uint64_t hash = 14695981039346656037u ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// The p of the exact test, where neighbouring rounds resemble each other.
double weakened(double p, double dependence) {
  return dependence <= 1 ? p : 2 * normal_at_most(normal_quantile(p / 2) / std::sqrt(dependence));
}

bool same_side(const Paired& a, const Paired& b) {
  return (a.effect > 0) == (b.effect > 0);
}

// Of each series: how much neighbouring rounds depend on each other. All series of a night were measured on
// one machine, so what is sure of them together holds for each; what is likely of one holds for that one.
std::vector<double> dependences(std::span<const Turns> turns) {
  constexpr double kTogether = 2, kAlone = 1.5;  // standard errors
  std::vector<Resemblance> each(turns.size());
  Resemblance all;
  for (size_t i = 0; i < turns.size(); ++i) {
    for (const auto* batch : {&turns[i].effect, &turns[i].same, &turns[i].confirm}) each[i].add(*batch);
    all.add(each[i]);
  }
  std::vector<double> result;
  for (const auto& one : each) result.push_back(std::max(one.dependence(kAlone), all.dependence(kTogether)));
  return result;
}

struct Measured {
  double dependence = 1;
  Paired first{}, second{};
};

Measured measure(const Turns& t, double dependence, Nulls& nulls, const Policy& policy) {
  Measured m{.dependence = dependence};
  const double level = strict_level(policy.alpha, dependence);
  m.first = compare(t.effect, nulls.of(t.effect.size()), level);
  m.first.p = weakened(m.first.p, dependence);
  if (t.confirm.empty()) return m;
  m.second = compare(t.confirm, nulls.of(t.confirm.size()), level);
  m.second.p = weakened(m.second.p, dependence);
  return m;
}

// The p of two batches that must both speak: the square of the larger. A first batch that raises no alarm
// stands alone, for its second was not measured.
double joint_p(const Measured& m, bool wants_second) {
  if (!wants_second) return m.first.p;
  if (m.second.n == 0 || !same_side(m.first, m.second)) return 1;
  const double p = std::max(m.first.p, m.second.p);
  return p * p;
}

bool alarms(const Paired& batch, const Policy& policy) {
  return batch.p <= policy.batch_p && std::abs(batch.effect) > policy.floor;
}

// An effect of max_detectable would have shown, and the series does not blame its own binary.
Reason why_not(const Measured& m, const TurnsVerdict& v, const Policy& policy) {
  if (v.false_alarms > policy.max_false_alarms) return Reason::kUnsteady;
  if (v.confirmed) return Reason::kNone;
  if (v.wants_second && m.second.n == 0) return Reason::kUnconfirmed;
  if (std::isinf(v.detectable)) return Reason::kFew;
  return v.detectable > std::log1p(policy.max_detectable) ? Reason::kNoise : Reason::kNone;
}

void decide(const Measured& m, const Policy& policy, TurnsVerdict& v) {
  const Paired& judged = m.second.n > 0 ? m.second : m.first;
  v.confirmed = v.wants_second && v.p <= policy.alpha && alarms(judged, policy);
  // Where nothing was found, what the interval still allows was not excluded.
  if (!v.confirmed) v.detectable = std::max({v.detectable, judged.high, -judged.low});
  v.reason = why_not(m, v, policy);
  if (v.reason == Reason::kUnsteady) v.detectable = std::numeric_limits<double>::infinity();
  if (v.reason != Reason::kNone) return;
  v.finding = Finding::kNone;
  if (v.confirmed) v.finding = judged.effect > 0 ? Finding::kMore : Finding::kLess;
}

// What both batches have to reach for the most doubted series of the family.
double batch_level(size_t family, const Policy& policy) {
  return std::min(policy.batch_p, std::sqrt(policy.alpha / static_cast<double>(std::max<size_t>(family, 1))));
}

}  // namespace

std::vector<TurnsVerdict> judge_turns(std::span<const Turns> turns, size_t family, const Policy& policy) {
  Nulls nulls;
  std::vector<Measured> measured;
  std::vector<double> hopes, p;
  const auto dependent = dependences(turns);
  for (size_t i = 0; i < turns.size(); ++i) {
    measured.push_back(measure(turns[i], dependent[i], nulls, policy));
    hopes.push_back(measured.back().first.p * measured.back().first.p);
  }
  const auto hoped = holm(hopes, family);  // what the joint p would be if the second batch said the same
  std::vector<TurnsVerdict> verdicts(turns.size());
  for (size_t i = 0; i < turns.size(); ++i) {
    auto& v = verdicts[i];
    v.first = measured[i].first;
    v.second = measured[i].second;
    v.wants_second = hoped[i] <= policy.alpha && alarms(v.first, policy);
    p.push_back(joint_p(measured[i], v.wants_second));
  }
  const auto corrected = holm(p, family);
  const double level = batch_level(std::max(family, turns.size()), policy);
  for (size_t i = 0; i < turns.size(); ++i) {
    auto& v = verdicts[i];
    v.p = corrected[i];
    const auto& same = turns[i].same;
    const auto facts = resample(same, nulls.of(same.size()), strict_level(level, measured[i].dependence),
                                policy, seed_of(turns[i].name, policy.seed));
    v.detectable = facts.detectable;
    v.false_alarms = facts.false_alarms;
    decide(measured[i], policy, v);
  }
  return verdicts;
}

int least_rounds(size_t family, const Policy& policy) {
  const double level = std::min(policy.alpha, batch_level(family, policy));
  int n = 1;
  while (SignedRank(n).cut(level) == 0) ++n;
  return n;
}

}  // namespace lockstep::perf
