// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <cmath>
#include <limits>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Wide enough that no partial sum overflows, and its mantissa by more than two bits longer than any format's
// that is rounded to.
using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= std::numeric_limits<double>::digits + 2 &&
              std::numeric_limits<Wide>::max_exponent > std::numeric_limits<double>::max_exponent + 64);

// An exact sum as numbers that do not overlap, the smallest first.
class Expansion {
 public:
  void clear() { parts_.clear(); }
  void add(Wide x) {
    size_t kept = 0;
    for (const Wide part : parts_) {
      const Wide sum = x + part, virtual_part = sum - x;
      const Wide error = (x - (sum - virtual_part)) + (part - virtual_part);
      if (error != 0) parts_[kept++] = error;
      x = sum;
    }
    parts_.resize(kept);
    if (x != 0) parts_.push_back(x);
  }

  // Rounded to odd: whoever rounds this again, to at least two bits less, rounds the sum itself. Where terms
  // have cancelled, the largest part need not be the rounded sum: those below it are added as long as that is
  // exact. What is then left has the sign of its first part, of which it has a bit.
  Wide to_odd() const {
    Wide whole = 0, left = 0;
    for (auto part = parts_.rbegin(); part != parts_.rend() && left == 0; ++part) {
      const Wide sum = whole + *part;
      left = *part - (sum - whole);
      whole = sum;
    }
    if (left == 0) return whole;
    const bool is_beyond = std::signbit(whole) == std::signbit(left);
    return with_last_bit(is_beyond ? whole : std::nextafter(whole, Wide(0)));
  }

 private:
  static Wide with_last_bit(Wide x) {
    int exponent = 0;
    const Wide mantissa = std::ldexp(std::frexp(x, &exponent), std::numeric_limits<Wide>::digits);
    const bool is_even = std::fmod(mantissa, Wide(2)) == 0;
    return is_even ? std::ldexp(mantissa + std::copysign(Wide(1), x),
                                exponent - std::numeric_limits<Wide>::digits)
                   : x;
  }

  std::vector<Wide> parts_;
};

float odd_float(Wide x) {
  auto nearest = static_cast<float>(x);
  if (static_cast<Wide>(nearest) == x) return nearest;
  if (std::abs(static_cast<Wide>(nearest)) > std::abs(x)) nearest = std::nextafter(nearest, 0.0f);
  int exponent = 0;
  const float mantissa = std::ldexp(std::frexp(nearest, &exponent), 24);
  return std::fmod(mantissa, 2.0f) == 0 ? std::nextafter(nearest, std::copysign(INFINITY, nearest)) : nearest;
}

// Of a number that T has.
template <class T>
T as(double x) {
  if constexpr (sizeof(T) == 8)
    return x;
  else
    return static_cast<T>(static_cast<float>(x));
}

template <class T>
T rounded(Wide x) {
  if constexpr (sizeof(T) >= 4)
    return static_cast<T>(x);
  else
    return static_cast<T>(odd_float(x));
}

template <class T>
T exact_sum_of(const std::vector<const T*>& terms, int64_t element, Expansion& sum) {
  sum.clear();
  double infinities = 0;
  bool all_negative_zero = true;
  for (const T* term : terms) {
    const T x = term[element];
    if (std::isnan(static_cast<double>(x))) return x;
    all_negative_zero &= x == T(0) && std::signbit(static_cast<double>(x));
    if (std::isinf(static_cast<double>(x)))
      infinities += static_cast<double>(x);
    else
      sum.add(static_cast<Wide>(static_cast<double>(x)));
  }
  if (infinities != 0) return as<T>(infinities);  // of both a NaN, which is not 0 either
  if (all_negative_zero) return as<T>(-0.0);
  return rounded<T>(sum.to_odd());
}

}  // namespace

at::Tensor tree_sum(std::vector<at::Tensor> terms) {
  while (terms.size() > 1) {
    std::vector<at::Tensor> sums;
    for (size_t i = 0; i + 1 < terms.size(); i += 2) sums.push_back(terms[i] + terms[i + 1]);
    if (terms.size() % 2 == 1) sums.push_back(terms.back());
    terms = std::move(sums);
  }
  return terms.at(0);
}

at::Tensor exact_sum(const std::vector<at::Tensor>& terms) {
  const auto& first = terms.at(0);
  LOCKSTEP_CHECK(first.device().is_cpu(), "[buckets] exact sums are of tensors on the CPU, not on ",
                 first.device(), "; take another order");
  auto result = at::empty_like(first);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, first.scalar_type(), "exact_sum", [&] {
    std::vector<const scalar_t*> data;
    for (const auto& term : terms) data.push_back(term.const_data_ptr<scalar_t>());
    auto* out = result.mutable_data_ptr<scalar_t>();
    Expansion sum;
    for (int64_t i = 0; i < first.numel(); ++i) out[i] = exact_sum_of(data, i, sum);
  });
  return result;
}

}  // namespace lockstep
