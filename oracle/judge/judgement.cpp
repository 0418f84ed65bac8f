// SPDX-License-Identifier: Apache-2.0
// A judgement in words.
#include <array>

#include "engine/values/error.h"
#include "oracle/judge/check.h"

namespace lockstep::oracle {

const char* name(Why why) {
  static constexpr std::array kNames = {"reduction order", "local kernel", "overflow"};
  return kNames.at(static_cast<size_t>(why));
}

const char* name(Condition condition) {
  static constexpr std::array kNames = {"value",           "rule",        "closed timeline",
                                        "sequence of ops", "final value", "malformed"};
  return kNames.at(static_cast<size_t>(condition));
}

std::string describe(const Judgement& j) {
  if (j.mismatch) {
    const Mismatch& f = *j.mismatch;
    std::string text = concat("difference (", name(f.condition), ") at op ", f.entry, f.op.empty() ? "" : " ",
                              f.op, ": ", f.text);
    if (f.position >= 0) text += concat("; position ", f.position);
    if (!f.index.empty())
      text += concat("; element ", at::IntArrayRef(f.index), ": ", f.actual, ", float64 ", f.expected,
                     ", bound ", f.bound);
    return text;
  }
  if (j.equal && j.explained.empty()) return "equal";
  std::string text = j.equal ? "equal" : "explained";
  for (const Explanation& e : j.explained) text += concat("; ", name(e.why), " at op ", e.entry, " ", e.op);
  return text;
}

}  // namespace lockstep::oracle
