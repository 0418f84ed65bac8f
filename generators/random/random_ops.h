// SPDX-License-Identifier: Apache-2.0
// The random operators: one explicit table, each with the dtypes that stock fills and the function that
// writes its calls. To add one: a line in random_ops.cpp.
#pragma once
#include <span>
#include <string_view>

#include "generators/program/builder.h"
#include "generators/program/draft.h"

namespace lockstep::generators {

// What an operator makes of its operand.
enum class RandomForm {
  kInPlace,  // writes it: it does not move, so it cannot be Partial
  kLike,     // looks at its shape
  kReads,    // reads its values
  kFactory,  // has none; the placement is the result's
};

struct RandomOp {
  const char* name;  // the overload
  RandomForm form;
  uint32_t dtypes;
  int64_t min_dims, max_dims;
  void (*call)(Draft& draft, const RandomOp& op, const Operand& operand);
  bool in_place() const { return form == RandomForm::kInPlace; }
  // Makes a permutation, whose keys depend on how many elements there are.
  bool permutes() const;
  // Its last dimension has elements even where the whole has none: categories.
  bool needs_last() const;
  // Dimensions of an operand so placed: flat locals that must stay do not meet noise that broadcasts.
  int64_t most_dims(const oracle::Target& target) const;
  // Elements beyond which the dtype does not hold the result.
  int64_t most_elements(c10::ScalarType dtype) const;
  // Values of its operand: probabilities and weights have a range.
  oracle::Values values(Random& random, c10::ScalarType dtype, bool partial) const;
};

constexpr uint32_t kIntegers = kI64 | kI32 | kI16 | kI8 | kU8;
constexpr uint32_t kAnyDtype = kFloats | kIntegers | kBool;

std::span<const RandomOp> random_ops();
// Null for an operator that is none.
const RandomOp* find_random_op(std::string_view name);

}  // namespace lockstep::generators
