// SPDX-License-Identifier: Apache-2.0
// What the codes of 8-bit optimizers stand for: Dettmers et al., 8-bit Optimizers via Block-wise Quantization
// (2022), section 2, dynamic tree quantization.
#pragma once
#include <array>

namespace lockstep {

// Ascending, from -1 (or 0) to 1: seven decades, each with twice the entries of the one below, and 0 and 1.
using DynamicMap = std::array<float, 256>;

// Signed for a first moment; unsigned, with twice the entries of a sign, for a second. The values are those
// of bitsandbytes.
const DynamicMap& dynamic_map(bool is_signed);

}  // namespace lockstep
