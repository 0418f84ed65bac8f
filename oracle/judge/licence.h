// SPDX-License-Identifier: Apache-2.0
// What an op may do to a reduction that pends: leave one, pass one on, or not look at the values. One table,
// per operand and factor, the oracle's own: it stands beside the rule question since that knows ordinary
// numbers only, and the sign of a zero, a NaN, an infinity and the dtype of a sum depend on it too.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "oracle/judge/judge_op.h"

namespace lockstep::oracle {

// Which operands pend, all alike, where a reduction passes.
enum class Operands {
  kNone,   // none: the op makes the reduction
  kAll,    // every tensor that it takes
  kFirst,  // the first tensor; the others are indices, or factors of another term
  kAny,    // whichever: no value is read
};
// What else must hold.
enum class Provided {
  kNothing,
  kSameDtype,        // terms are added in the dtype in which the whole is
  kCastOfTerms,      // or in another floating one, where the engine says that it casts terms before their sum
  kPositiveFactors,  // and alpha and beta are positive numbers: -0.0, which adds nothing, stays so
  kPositiveNumber,   // and the other operand is a positive number, by which no quotient is rounded down
};

struct Licence {
  Operands operands;
  std::string_view reductions;  // "sum avg", with blanks between them
  Provided provided;
  std::string_view ops;  // as in OpFamily, or one overload
  std::string_view reason;
};
std::span<const Licence> licences();

// What no licence allows of the entry's placements, on some mesh dimension; empty: all is allowed.
std::string unlicensed(const OpInQuestion& q, const Recording& recording);

}  // namespace lockstep::oracle
