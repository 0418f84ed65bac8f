// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/values_elements.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/ownership/reduce.h"

namespace lockstep::oracle {
namespace {

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44d;
  return x ^ (x >> 33);
}

// What the purposes of a seed are called.
constexpr uint64_t kElement = 0, kSpecialShape = 1, kSpecialFraction = 2;

struct FloatFormat {
  int exponent_bits, fraction_bits;

  uint64_t fraction_mask() const { return (uint64_t{1} << fraction_bits) - 1; }
  uint64_t bias() const { return (uint64_t{1} << (exponent_bits - 1)) - 1; }
  uint64_t top() const { return (uint64_t{1} << exponent_bits) - 1; }  // of infinities and NaNs
  uint64_t bits(uint64_t sign, uint64_t exponent, uint64_t fraction) const {
    return ((sign << exponent_bits | exponent) << fraction_bits) | fraction;
  }
};

FloatFormat float_format(c10::ScalarType dtype) {
  const int precision = precision_of(dtype);
  return {static_cast<int>(8 * c10::elementSize(dtype)) - precision, precision - 1};
}

// Eight uniform words added: mean 0, deviation 1, within 4.9, and the same bits on every machine.
double normal(uint64_t seed, int64_t element) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 4; ++i) {
    const auto word = hash_bits(seed, kElement + 16 + i, element);
    sum += (word >> 32) + (word & 0xffffffff);
  }
  const double centred = static_cast<double>(sum) - 8 * 2147483647.5;
  return centred * 0x1p-32 * 1.224744871391589;  // sqrt(12 / 8)
}

// As many digits as the dtype holds, so that rounding never gives 1.
double uniform(uint64_t seed, c10::ScalarType dtype, int64_t element) {
  const int digits = float_format(dtype).fraction_bits + 1;
  const auto kept = hash_bits(seed, kElement, element) >> (64 - digits);
  return static_cast<double>(kept) / static_cast<double>(uint64_t{1} << digits);
}

int64_t in_range(const Values& values, int64_t element) {
  LOCKSTEP_CHECK(values.low <= values.high, "[values] integers from ", values.low, " to ", values.high,
                 ": the range is empty; give low <= high");
  const auto count = static_cast<uint64_t>(values.high) - static_cast<uint64_t>(values.low) + 1;
  const auto word = hash_bits(values.seed, kElement, element);
  return static_cast<int64_t>(static_cast<uint64_t>(values.low) + (count == 0 ? word : word % count));
}

int64_t special_integer(uint64_t seed, c10::ScalarType dtype, int64_t element) {
  const auto low = lowest_integer(dtype), high = highest_integer(dtype);
  const int64_t extremes[] = {low, high, 0, 1, low < 0 ? -1 : high};
  const auto which = hash_below(seed, kSpecialShape, element, 8);
  return which < std::ssize(extremes)
             ? extremes[which]
             : hash_below(seed, kSpecialFraction, element, dtype == c10::ScalarType::Bool ? 2 : 100);
}

}  // namespace

uint64_t hash_bits(uint64_t seed, uint64_t purpose, int64_t element) {
  const auto key = scramble(seed + 0x9e3779b97f4a7c15 * (purpose + 1));
  return scramble(key ^ (static_cast<uint64_t>(element) * 0xd1342543de82ef95 + 0x632be59bd9b4e019));
}

int64_t hash_below(uint64_t seed, uint64_t purpose, int64_t element, int64_t bound) {
  return static_cast<int64_t>(hash_bits(seed, purpose, element) % static_cast<uint64_t>(bound));
}

double hash_unit(uint64_t seed, uint64_t purpose, int64_t element) {
  return static_cast<double>(hash_bits(seed, purpose, element) >> 11) * 0x1p-53;
}

double real_element(const Values& values, c10::ScalarType dtype, int64_t element) {
  switch (values.kind) {
    case ValueKind::kNormal:
      return normal(values.seed, element);
    case ValueKind::kUniform:
      return uniform(values.seed, dtype, element);
    case ValueKind::kIntegers:
    case ValueKind::kIndex:
      return static_cast<double>(in_range(values, element));
    case ValueKind::kOnes:
      return 1;
    default:
      return 0;
  }
}

int64_t integer_element(const Values& values, c10::ScalarType dtype, int64_t element) {
  const bool is_bool = dtype == c10::ScalarType::Bool;
  switch (values.kind) {
    case ValueKind::kNormal:
      return is_bool ? hash_below(values.seed, kElement, element, 2)
                     : static_cast<int64_t>(normal(values.seed, element));
    case ValueKind::kUniform:
      return hash_below(values.seed, kElement, element, 2);
    case ValueKind::kIntegers:
    case ValueKind::kIndex:
      return is_bool ? in_range(values, element) != 0 : in_range(values, element);
    case ValueKind::kSpecial:
      return special_integer(values.seed, dtype, element);
    case ValueKind::kOnes:
      return 1;
    default:
      return 0;
  }
}

uint64_t special_bits(const Values& values, c10::ScalarType dtype, uint64_t purpose, int64_t element) {
  const auto f = float_format(dtype);
  const auto shape = hash_bits(values.seed, kSpecialShape + 64 * (purpose + 1), element);
  const auto random = hash_bits(values.seed, kSpecialFraction + 64 * (purpose + 1), element);
  const uint64_t sign = shape >> 63, fraction = random & f.fraction_mask();
  const uint64_t quiet = (f.fraction_mask() + 1) >> 1;
  const struct {
    uint64_t sign, exponent, fraction;
  } kinds[] = {
      {1, 0, 0},  // -0.0
      {0, 0, 0},
      {sign, f.top(), fraction | quiet},       // NaN
      {sign, f.top(), 0},                      // infinity
      {sign, 0, 1},                            // the smallest denormal
      {sign, 0, fraction},                     // a denormal
      {sign, f.top() - 1, f.fraction_mask()},  // the largest number
      {sign, f.top() - 1, fraction},           // huge
      {sign, f.bias(), 0},                     // 1
      {sign, f.bias(), 1},                     // 1 + ulp
      {sign, f.bias() + random % 2, quiet},    // 1.5 or 3: ties when halved or rounded
      {sign, f.bias() + 1, quiet >> 1},        // 2.5
      {sign, 1, 0},                            // the smallest normal number
      {sign, f.bias() - 1 + (random >> 62) % 3, fraction},
  };
  const auto& kind = kinds[std::min<uint64_t>(shape % 16, std::size(kinds) - 1)];
  return f.bits(kind.sign, kind.exponent, kind.fraction);
}

uint64_t identity_bits(ReduceOp op, c10::ScalarType dtype) {
  const auto one = at::full({1}, identity(op, dtype), at::TensorOptions(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, one.const_data_ptr(), one.nbytes());
  return bits;
}

int64_t lowest_integer(c10::ScalarType dtype) {
  return with_integer(dtype, []<class T>() { return int64_t{std::numeric_limits<T>::min()}; });
}

int64_t highest_integer(c10::ScalarType dtype) {
  return with_integer(dtype, []<class T>() { return int64_t{std::numeric_limits<T>::max()}; });
}

}  // namespace lockstep::oracle
