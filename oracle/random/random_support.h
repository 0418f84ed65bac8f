// SPDX-License-Identifier: Apache-2.0
// What stock libtorch accepts of a random operator on CUDA: dtypes, ranges, and the sizes beyond which its
// kernels' 32-bit indices overflow.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/stream/random_call.h"

namespace lockstep::oracle {

// The operator as a user knows it: "aten::uniform_".
std::string_view name_of(RandomKind kind);

// random_() without a range: how many integers from 0 the dtype holds exactly; for int64 2^63.
uint64_t exact_integers(c10::ScalarType dtype);

// Throws Error, naming the operator, the value and what to do, unless stock has a kernel for the call.
void check_supported(const RandomCall& call);

}  // namespace lockstep::oracle
