// SPDX-License-Identifier: Apache-2.0
// Whether a body computes what it should, before it is timed.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep::suites {

// Throws WrongBits that names `who` unless both have the same dtypes, shapes and bits.
void check_bits(const std::string& who, const std::vector<at::Tensor>& expected,
                const std::vector<at::Tensor>& actual);

}  // namespace lockstep::suites
