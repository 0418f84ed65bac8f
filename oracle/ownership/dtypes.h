// SPDX-License-Identifier: Apache-2.0
// A dtype's C++ type: what std::numeric_limits knows of it need not be written again, dtype by dtype.
#pragma once
#include <ATen/Dispatch.h>

#include <limits>

namespace lockstep::oracle {

// f.operator()<T>() for the type T of the dtype's elements.
template <class F>
auto with_type(c10::ScalarType dtype, const F& f) {
  return AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "with_type",
                                    [&] { return f.template operator()<scalar_t>(); });
}
// The same for a floating dtype, or an integer one, which bool is. Throw for another.
template <class F>
auto with_float(c10::ScalarType dtype, const F& f) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "with_float",
                                         [&] { return f.template operator()<scalar_t>(); });
}
template <class F>
auto with_integer(c10::ScalarType dtype, const F& f) {
  return AT_DISPATCH_INTEGRAL_TYPES_AND(at::kBool, dtype, "with_integer",
                                        [&] { return f.template operator()<scalar_t>(); });
}

// Bits of a number's fraction, the leading one included: 24 of f32.
inline int precision_of(c10::ScalarType dtype) {
  return with_float(dtype, []<class T>() { return std::numeric_limits<T>::digits; });
}

}  // namespace lockstep::oracle
