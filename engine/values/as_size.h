// SPDX-License-Identifier: Apache-2.0
// From the signed sizes of tensors to those of containers, and their indices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace lockstep {

// An index or a count as containers want it. @pre i >= 0
inline size_t as_size(int64_t i) {
  return static_cast<size_t>(i);
}

// 0, 1, …, n - 1.
inline std::vector<int64_t> up_to(int64_t n) {
  std::vector<int64_t> numbers(as_size(n));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

}  // namespace lockstep
