// SPDX-License-Identifier: Apache-2.0
// Two runs, step beside step: brought to one form, compared number by number, as bits or as the digits that
// were written.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ci/curves/log.h"

namespace lockstep::curves {

// Both runs in one form: the same dtype, the same numbers.
struct Pair {
  Log reference, candidate;  // their points hold only numbers that are compared
  std::string dtype = "f64";
  std::optional<int> digits{};   // fewest significant digits of any number; empty: every bit is known
  int most_digits = 0;           // of any number, where digits are known
  bool has[2] = {false, false};  // loss, grad_norm: on both sides
  std::vector<std::string> notes{};

  template <class... Parts>
  void note(const Parts&... parts) {
    notes.push_back(concat(parts...));
  }
  // "loss grad_norm": what is compared, as dashboard::Curve has it.
  std::string fields() const;
  // "the same bits (f32)", "the 5 to 6 digits that were written": what equality is about.
  std::string precision() const;
};

// Brings two runs to one form:
//   every number is bits of one dtype   -> that dtype
//   bits, f64 beside f32                -> the f64 side is rounded to f32
//   f32 and f64 mixed, all f32 values   -> f32, which loses nothing
//   bits of other dtypes                -> all widened to f64, which loses nothing
//   decimals on both sides              -> as they are, in f64
//   `decimals`                          -> every number is rounded to so many digits after the point
// Throws Error for bits beside decimals without `decimals`: they would differ whatever the runs did.
// A quantity that one side lacks is left out of both; at a step that has it on one side only, it is left out
// there.
Pair paired(Log reference, Log candidate, std::optional<int> decimals = {});

// How far one quantity is apart over the common steps.
struct Distance {
  double max_abs = 0;  // infinity where one side is not finite and the bits differ
  int64_t max_abs_step = 0;
  std::optional<uint64_t> max_ulp{};           // of bits only; of numbers, not of NaN
  int64_t not_comparable = 0;                  // steps where the bits differ and one side is NaN
  std::optional<double> drift{}, ulp_drift{};  // dashboard::drift of |difference|, and of its ulp
};

struct Comparison {
  int64_t steps = 0;             // in common
  int64_t identical_prefix = 0;  // of them, before the first that differs
  int64_t different = 0;
  std::optional<int64_t> first_difference{};
  std::string first_field{}, first_expected{}, first_got{};    // "loss", its numbers as text with bits
  int64_t only_reference = 0, only_candidate = 0;              // steps that one side has alone
  std::string only_reference_steps{}, only_candidate_steps{};  // "7, 9, 12 to 20"
  Distance distances[2]{};                                     // loss, grad_norm
};

// Law: steps that both have are equal exactly if all compared numbers have the same bits: -0.0 differs from
// 0.0, and one NaN from another with other bits.
Comparison compare(const Pair& pair);

}  // namespace lockstep::curves
