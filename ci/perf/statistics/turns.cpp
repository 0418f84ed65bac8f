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

// Standard errors beyond which a resemblance of neighbouring rounds is believed: of all series, of one.
constexpr double kTogether = 2, kAlone = 1.5;

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

// One series, its numbers so far.
struct Measured {
  bool few = false;  // a batch is too short to show anything
  double dependence = 1;
  Paired first{}, second{};
};

// How much neighbouring rounds depend on each other. All series of a night were measured on one machine, so
// what is sure of them together holds for each; what is likely of one holds for that one. Of the first
// batches alone: whether a second is wanted must not change when it comes.
std::vector<double> dependences(std::span<const Turns> turns) {
  std::vector<Resemblance> each(turns.size());
  Resemblance all;
  for (size_t i = 0; i < turns.size(); ++i) {
    each[i].add(turns[i].effect);
    each[i].add(turns[i].same);
    all.add(each[i]);
  }
  std::vector<double> result;
  for (const auto& one : each) result.push_back(std::max(one.dependence(kAlone), all.dependence(kTogether)));
  return result;
}

Paired judge_batch(std::span<const double> batch, double dependence, Nulls& nulls, const Policy& policy) {
  Paired result = compare(batch, nulls.of(batch.size()), strict_level(policy.alpha, dependence));
  result.p = weakened(result.p, dependence);
  return result;
}

Measured measure(const Turns& t, double dependence, size_t least, Nulls& nulls, const Policy& policy) {
  Measured m{.few = std::min(t.effect.size(), t.same.size()) < least, .dependence = dependence};
  m.first = judge_batch(t.effect, dependence, nulls, policy);
  if (t.confirm.empty()) return m;
  Resemblance own;
  for (const auto* batch : {&t.effect, &t.same, &t.confirm}) own.add(*batch);
  m.second = judge_batch(t.confirm, std::max(dependence, own.dependence(kAlone)), nulls, policy);
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

// Which series could be found if their second batch said what the first did.
std::vector<bool> second_batches(const std::vector<Measured>& measured, size_t family, const Policy& policy) {
  std::vector<double> hopes;
  for (const auto& m : measured) hopes.push_back(m.first.p * m.first.p);
  const auto hoped = holm(hopes, family);
  std::vector<bool> wanted;
  for (size_t i = 0; i < measured.size(); ++i)
    wanted.push_back(!measured[i].few && hoped[i] <= policy.alpha && alarms(measured[i].first, policy));
  return wanted;
}

// An effect of max_detectable would have shown, and the series does not blame its own binary.
Reason why_not(const Measured& m, const TurnsVerdict& v, const Policy& policy) {
  if (m.few) return Reason::kFew;
  if (v.false_alarms > policy.max_false_alarms) return Reason::kUnsteady;
  if (v.confirmed) return Reason::kNone;
  if (v.wants_second && m.second.n == 0) return Reason::kUnconfirmed;
  return v.detectable > std::log1p(policy.max_detectable) ? Reason::kNoise : Reason::kNone;
}

void decide(const Measured& m, const Policy& policy, TurnsVerdict& v) {
  const Paired& judged = m.second.n > 0 ? m.second : m.first;
  v.confirmed = v.wants_second && v.p <= policy.alpha && alarms(judged, policy);
  // Where nothing was found, what the interval still allows was not excluded.
  if (!v.confirmed) v.detectable = std::max({v.detectable, judged.high, -judged.low});
  v.reason = why_not(m, v, policy);
  const bool mute = v.reason == Reason::kUnsteady || v.reason == Reason::kFew;
  if (mute) v.detectable = std::numeric_limits<double>::infinity();
  if (v.reason != Reason::kNone) return;
  v.finding = Finding::kNone;
  if (v.confirmed) v.finding = judged.effect > 0 ? Finding::kMore : Finding::kLess;
}

// What both batches have to reach for the most doubted series of the family.
double batch_level(size_t family, const Policy& policy) {
  return std::min(policy.batch_p, std::sqrt(policy.alpha / static_cast<double>(std::max<size_t>(family, 1))));
}

}  // namespace

int least_rounds(size_t family, const Policy& policy) {
  const double level = std::min(policy.alpha, batch_level(family, policy));
  int n = 1;
  while (SignedRank(n).cut(level) == 0) ++n;
  return n;
}

std::vector<TurnsVerdict> judge_turns(std::span<const Turns> turns, size_t family, const Policy& policy) {
  family = std::max(family, turns.size());
  const auto least = static_cast<size_t>(least_rounds(family, policy));
  const auto dependent = dependences(turns);
  Nulls nulls;
  std::vector<Measured> measured;
  for (size_t i = 0; i < turns.size(); ++i)
    measured.push_back(measure(turns[i], dependent[i], least, nulls, policy));
  const auto wanted = second_batches(measured, family, policy);
  std::vector<double> p;
  for (size_t i = 0; i < turns.size(); ++i) p.push_back(joint_p(measured[i], wanted[i]));
  const auto corrected = holm(p, family);
  const double level = batch_level(family, policy);
  std::vector<TurnsVerdict> verdicts;
  for (size_t i = 0; i < turns.size(); ++i) {
    TurnsVerdict v{.first = measured[i].first, .second = measured[i].second, .p = corrected[i]};
    v.wants_second = wanted[i];
    const auto& same = turns[i].same;
    const auto facts = resample(same, nulls.of(same.size()), strict_level(level, measured[i].dependence),
                                policy, seed_of(turns[i].name, policy.seed));
    v.detectable = facts.detectable;
    v.false_alarms = facts.false_alarms;
    decide(measured[i], policy, v);
    verdicts.push_back(v);
  }
  return verdicts;
}

}  // namespace lockstep::perf
