// SPDX-License-Identifier: Apache-2.0
// What tests of this folder share.
#pragma once
#include <ATen/ATen.h>

#include "engine/values/placement.h"

namespace lockstep {

// One placement of each kind that behaves differently, for each tensor dimension.
inline Placements placement_choices(int64_t ndim) {
  Placements result{Replicate{}, Partial{}};
  for (int64_t d = 0; d < ndim; ++d) {
    result.emplace_back(Shard{d});
    result.emplace_back(InterleavedShard{d, 2});
  }
  return result;
}

// -7, -6, …
inline at::Tensor ramp(std::vector<int64_t> shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).sub(7).reshape(shape);
}

// What it throws; empty: nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// Whether a message has all of these in it.
inline bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const auto* part : parts)
    if (message.find(part) == std::string::npos) return false;
  return true;
}

}  // namespace lockstep
