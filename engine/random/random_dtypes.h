// SPDX-License-Identifier: Apache-2.0
// From the dtype of a RandomCall to a C++ type: calls f with a value of it.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "engine/random/random_check.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {

template <class F>
void with_float_type(const RandomCall& call, const F& f) {
  switch (call.dtype) {
    case c10::kDouble:
      return f(double{});
    case c10::kFloat:
      return f(float{});
    case c10::kBFloat16:
      return f(c10::BFloat16{});
    case c10::kHalf:
      return f(c10::Half{});
    default:
      throw Error(
          concat("[", op_name(call.kind), "] does not fill a tensor of ", dtype_name(call.dtype), "."));
  }
}

template <class F>
void with_number_type(const RandomCall& call, const F& f) {
  switch (call.dtype) {
    case c10::kLong:
      return f(int64_t{});
    case c10::kInt:
      return f(int32_t{});
    case c10::kShort:
      return f(int16_t{});
    case c10::kChar:
      return f(int8_t{});
    case c10::kByte:
      return f(uint8_t{});
    default:
      with_float_type(call, f);
  }
}

}  // namespace lockstep
