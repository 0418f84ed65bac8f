// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/gates.h"

#include <algorithm>

#include "dashboard/store/rows.h"
#include "engine/values/exit_code.h"

namespace lockstep::suites {

using dashboard::Verdict;

std::set<int> codes_of(const Suite& suite, const VerdictCounts& verdicts) {
  std::set<int> codes;
  for (const auto& [word, count] : verdicts) {
    const auto verdict = dashboard::verdict_from(word);
    if (count == 0 || (verdict && !dashboard::is_failure(*verdict))) continue;
    if (!verdict || *verdict == Verdict::kBroken)
      codes.insert(kHarnessError);
    else if (*verdict == Verdict::kNondeterministic)
      codes.insert(kNondeterminism);
    else
      codes.insert(suite.self_check ? kFaultSurvived : kDifference);
  }
  return codes;
}

int64_t measured(const VerdictCounts& verdicts) {
  int64_t total = 0;
  for (const auto& [word, count] : verdicts)
    if (word != dashboard::name(Verdict::kGaveUp) && word != dashboard::name(Verdict::kBroken))
      total += count;
  return total;
}

int64_t least_of(int64_t planned) {
  return planned - std::max(planned / 5, std::min<int64_t>(1, planned - 1));
}

}  // namespace lockstep::suites
