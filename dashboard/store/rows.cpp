// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/rows.h"

#include <chrono>

namespace lockstep::dashboard {

namespace {
struct VerdictRow {
  const char* name;
  bool failure;
};
// In the order of the enumeration; the same names stand in schema/001.sql and 003.sql.
constexpr VerdictRow kRows[kVerdicts] = {
    {"equal", false},
    {"explained", false},
    {"explained_local_kernel", false},
    {"explained_overflow", false},
    {"bounded", false},
    {"expected_exception", false},
    {"gave_up", false},
    {"nondeterministic", true},
    {"different", true},
    {"hung", true},
    {"crashed", true},
    {"broken", true},
};
}  // namespace

const char* name(Verdict v) {
  return kRows[static_cast<size_t>(v)].name;
}

std::optional<Verdict> verdict_from(std::string_view text) {
  for (size_t i = 0; i < kVerdicts; ++i) {
    if (kRows[i].name == text) return static_cast<Verdict>(i);
  }
  return std::nullopt;
}

bool is_failure(Verdict v) {
  return kRows[static_cast<size_t>(v)].failure;
}

int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace lockstep::dashboard
