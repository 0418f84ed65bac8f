// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/literal_range.h"

#include <c10/util/BFloat16-math.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/random/random_support.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Limits = std::numeric_limits<int64_t>;

// One past x, or one before it, where integers wrap.
int64_t after(int64_t x) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + 1);
}
int64_t before(int64_t x) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - 1);
}

// The integer that x86 makes of a number: its lowest where it has none.
template <class T>
int64_t integer_of(T x) {
  const auto wide = static_cast<double>(x);
  return wide >= -0x1p63 && wide < 0x1p63 ? static_cast<int64_t>(wide) : Limits::min();
}

template <class T>
T nearest(int64_t x) {
  if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(x);
  else
    return static_cast<T>(static_cast<float>(x));
}

// Stock asks what from + 1 and to - 1 become in the dtype, and steps to the dtype's next number inside if
// that is a number outside.
template <class T>
void move_inwards(int64_t& from, std::optional<int64_t>& to) {
  const T first = nearest<T>(after(from)), infinity = std::numeric_limits<T>::infinity();
  const bool overflows = first == infinity || first == -infinity;
  if (integer_of(first) < from)
    from = overflows ? Limits::min() : integer_of(std::nextafter(nearest<T>(integer_of(first)), infinity));
  if (!to) return;
  const T last = nearest<T>(before(*to));
  if (integer_of(last) >= *to) to = integer_of(std::nextafter(last, -infinity));
}

void move_inwards(ScalarType dtype, int64_t& from, std::optional<int64_t>& to) {
  switch (dtype) {
    case ScalarType::Double:
      return move_inwards<double>(from, to);
    case ScalarType::Float:
      return move_inwards<float>(from, to);
    case ScalarType::Half:
      return move_inwards<c10::Half>(from, to);
    case ScalarType::BFloat16:
      return move_inwards<c10::BFloat16>(from, to);
    default:
      return;
  }
}

}  // namespace

Bounds bounds_of_random(ScalarType dtype, int64_t from, std::optional<int64_t> to) {
  if (!to && from == Limits::min()) {
    LOCKSTEP_CHECK(dtype == ScalarType::Long || (c10::isFloatingType(dtype) && dtype != ScalarType::Half),
                   "[aten::random_] stock does not fill ", dtype_name(dtype),
                   " with all 64 bits; use i64, f64, f32 or bf16");
    return {true, 0, 0};
  }
  LOCKSTEP_CHECK(!to || from < *to, "[aten::random_] the range from ", from, " to ", to.value_or(0),
                 " is empty; give from < to");
  move_inwards(dtype, from, to);
  return {false, from, to ? *to : static_cast<int64_t>(exact_integers(dtype))};
}

}  // namespace lockstep::oracle
