// SPDX-License-Identifier: Apache-2.0
// From the signed sizes of tensors to those of containers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lockstep {

// An index or a count as containers want it. @pre i >= 0
inline size_t as_size(int64_t i) {
  return static_cast<size_t>(i);
}

}  // namespace lockstep
