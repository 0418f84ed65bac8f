// SPDX-License-Identifier: Apache-2.0
// A reduction of what ranks share: each has a part of what one result is of, or a term of it. What is
// computed of the parts alone is added up across ranks, and the rest of the op comes once, after that.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/ops/rules/row.h"

namespace lockstep {

struct Reduction {
  at::Tensor self;
  std::optional<std::vector<int64_t>> dims = {};  // none: the op has no such argument, or None
  bool keepdim = false;
  at::ScalarType dtype = at::kFloat;
  std::vector<bool> reduced = {};  // of each dimension
  int64_t count = 1;               // how many elements each result is of

  bool all() const;
};
Reduction reduction_of(const Arguments& args);

struct Shared {
  bool parts = false, terms = false;
  int64_t ranks = 1;    // that have parts
  Placements gathered;  // with no parts left, only terms
};
Shared shared_of(const Reduction& reduction);

// Where nothing pends any longer, by a redistribution that no program asks for, and is counted.
at::Tensor without_terms(const at::Tensor& t);

}  // namespace lockstep
