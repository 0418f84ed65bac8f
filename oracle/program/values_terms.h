// SPDX-License-Identifier: Apache-2.0
// Terms of Partial tensors: how one value is spread over ranks, so that a rule which reduces too early, too
// late or twice shows. Asymmetric, sign-cancelling, with ties; exact where the values are integers.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {

// One tensor of the global shape (contiguous) for each coordinate along the Partial mesh dimensions of
// `spec`, row-major; one where there are none. Their declared fold has the input's values up to rounding, and
// for integer values exactly; for kSpecial the terms are special values of their own.
std::vector<at::Tensor> make_terms(const Input& input, const Spec& spec);

// A bound of the magnitude of every term and of every partial fold, if all values are integers of magnitude
// at most `magnitude`.
double term_bound(double magnitude, const Spec& spec);

}  // namespace lockstep::oracle
