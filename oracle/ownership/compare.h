// SPDX-License-Identifier: Apache-2.0
// Comparison of tensors as integer bits, and what it found.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::oracle {

// From best to worst.
enum class BitClass { kEqual, kZeroSign, kNanPayload, kUlp, kValue, kShape };
const char* name(BitClass c);  // "equal", "sign of zero", "NaN payload", "ulp", "value", "shape"

struct Difference {
  BitClass bits = BitClass::kEqual;
  int64_t elements = 0;   // of the tensor
  int64_t different = 0;  // elements whose bits differ
  int64_t max_ulp = 0;    // in the order-preserving integer map; saturates
  double max_abs = 0, max_rel = 0;
  std::vector<int64_t> first_index;             // global index of the first difference, row-major
  uint64_t expected_bits = 0, actual_bits = 0;  // at first_index
  double expected = 0, actual = 0;

  bool equal() const { return bits == BitClass::kEqual; }
};

// @post equal() exactly if shape, dtype and every element's bits are the same. kUlp: all differences are of
// finite values at most `ulp_limit` units in the last place apart.
Difference compare(const at::Tensor& expected, const at::Tensor& actual, int64_t ulp_limit = 4);
std::string describe(const Difference& d, c10::ScalarType dtype);

// Distance in units in the last place under the order-preserving map of floats to integers.
int64_t ulp_distance(double expected, double actual, c10::ScalarType dtype);

}  // namespace lockstep::oracle
