// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/exact_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/values/as_size.h"
#include "oracle/ownership/dtypes.h"

namespace lockstep::oracle {
namespace {

struct Format {
  int precision, least;  // bits of a number; the exponent of the smallest
};

Format format_of(c10::ScalarType dtype) {
  return with_float(dtype, []<class T>() {
    using Limits = std::numeric_limits<T>;
    return Format{Limits::digits, std::ilogb(static_cast<double>(Limits::denorm_min()))};
  });
}

// A number in fixed point, its lowest bit worth 2^kLeast: below the smallest double by more bits than a
// quotient is rounded by, above the largest by those that 2^31 terms carry. Limbs of 32 bits stand in 64, so
// that carries may wait.
class FixedPoint {
 public:
  void add(double x) {
    int exponent = 0;
    const double fraction = std::frexp(std::abs(x), &exponent);
    const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
    const int place = exponent - 53 - kLeast, shift = place % 32;
    const uint64_t low = (mantissa & kLimb) << shift, high = (mantissa >> 32) << shift;
    const int64_t sign = std::signbit(x) ? -1 : 1;
    auto* limb = &limbs_[as_size(place / 32)];
    limb[0] += sign * static_cast<int64_t>(low & kLimb);
    limb[1] += sign * static_cast<int64_t>((low >> 32) + (high & kLimb));
    limb[2] += sign * static_cast<int64_t>(high >> 32);
  }

  // The number divided and rounded, beyond the format's greatest too; the sign of a zero is that of what was
  // rounded away.
  double rounded(int64_t divisor, const Format& f) {
    const bool negative = carry() < 0;
    if (negative) {
      for (auto& limb : limbs_) limb = -limb;
      carry();
    }
    divide(static_cast<uint64_t>(divisor));
    const double magnitude = round(f);
    return negative ? -magnitude : magnitude;
  }

 private:
  static constexpr uint64_t kLimb = 0xffffffff;
  static constexpr int kLeast = -1152, kLimbs = 72;

  // Leaves 32 bits in each limb and returns what is left: -1 of a negative number.
  int64_t carry() {
    int64_t carried = 0;
    for (auto& limb : limbs_) {
      const int64_t all = limb + carried;
      carried = all >> 32;
      limb = all & static_cast<int64_t>(kLimb);
    }
    return carried;
  }

  // The remainder decides no rounding: the sum is a multiple of 2^78 of the lowest bit, so if all that the
  // quotient has below its half were 0, the remainder would be a multiple of 2^77, and less than the divisor.
  void divide(uint64_t divisor) {
    uint64_t rest = 0;
    for (auto limb = limbs_.rbegin(); limb != limbs_.rend(); ++limb) {
      const uint64_t all = (rest << 32) | static_cast<uint64_t>(*limb);
      *limb = static_cast<int64_t>(all / divisor);
      rest = all % divisor;
    }
  }

  bool bit(int i) const { return (limbs_[as_size(i / 32)] >> (i % 32) & 1) != 0; }

  double round(const Format& f) const {
    int top = 32 * kLimbs - 1;
    while (top >= 0 && !bit(top)) --top;
    const int last = std::max(top + kLeast - f.precision + 1, f.least) - kLeast;
    uint64_t mantissa = 0;
    for (int i = top; i >= last; --i) mantissa = mantissa << 1 | (bit(i) ? 1 : 0);
    bool rest = false;
    for (int i = 0; i < last - 1 && !rest; ++i) rest = bit(i);
    if (bit(last - 1) && (rest || mantissa % 2 == 1)) ++mantissa;
    return std::ldexp(static_cast<double>(mantissa), last + kLeast);
  }

  std::array<int64_t, kLimbs> limbs_{};
};

// Of one element's terms.
double sum_of(const std::vector<const double*>& terms, int64_t element, int64_t divisor, const Format& f) {
  FixedPoint sum;
  double infinities = 0;
  bool all_negative_zero = true;
  for (const double* term : terms) {
    const double x = term[element];
    all_negative_zero &= x == 0 && std::signbit(x);
    if (std::isinf(x)) infinities += x;
    if (std::isfinite(x)) sum.add(x);
  }
  if (std::isnan(infinities)) return std::numeric_limits<double>::quiet_NaN();
  if (infinities != 0) return infinities;
  return all_negative_zero ? -0.0 : sum.rounded(divisor, f);
}

}  // namespace

at::Tensor exact_sum(const std::vector<at::Tensor>& terms, int64_t divisor, c10::ScalarType dtype) {
  const Format f = format_of(dtype);
  std::vector<at::Tensor> wide;
  std::vector<const double*> data;
  for (const at::Tensor& t : terms)
    data.push_back(wide.emplace_back(t.to(at::kDouble).contiguous()).const_data_ptr<double>());
  const at::Tensor sums = at::empty(terms.at(0).sizes(), at::kDouble);
  auto* out = sums.mutable_data_ptr<double>();
  for (int64_t i = 0; i < sums.numel(); ++i) out[i] = sum_of(data, i, divisor, f);
  at::Tensor value = sums.to(dtype);
  for (auto term = terms.rbegin(); term != terms.rend(); ++term)
    value = at::where(at::ne(*term, *term), term->to(dtype), value);
  return value;
}

}  // namespace lockstep::oracle
