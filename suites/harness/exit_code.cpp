// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/exit_code.h"

namespace lockstep::suites {
namespace {

struct Meaning {
  int code;
  const char* text;
};
// In the order in which they win.
constexpr Meaning kOrder[] = {
    {kUsage, "usage, or not available in this version"},
    {kStoreUnusable, "store unreadable, newer or corrupt"},
    {kHarnessError, "harness error"},
    {kFaultSurvived, "a planted fault or the canary survived"},
    {kNotMeasured, "not everything planned was measured"},
    {kDifference, "a difference, crash or hang"},
    {kNondeterminism, "non-determinism only"},
    {kSlower, "throughput regression only"},
    {kSkipped, "skipped: no such device, or the lane was refused"},
    {kAllEqual, "all equal or explained"},
};

}  // namespace

int winning(const std::set<int>& codes) {
  for (const auto& [code, text] : kOrder)
    if (codes.contains(code)) return code;
  return codes.empty() ? kAllEqual : kHarnessError;
}

const char* meaning(int code) {
  for (const auto& m : kOrder)
    if (m.code == code) return m.text;
  return "unknown";
}

}  // namespace lockstep::suites
