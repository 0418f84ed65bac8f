// SPDX-License-Identifier: Apache-2.0
#include "kernels/philox_fill.h"

namespace lockstep {

bool fill(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image, void* out,
          Simd simd) {
  return detail::fill_floats(distribution, plan, image, out, simd) ||
         detail::fill_counted(distribution, plan, image, out, simd);
}

int lanes_of(const Distribution& distribution) {
  int lanes = 0;
  const auto read = [&](const auto& values) { lanes = values.kLanes; };
  if (!with_float_values(distribution, read)) with_counted_values(distribution, read);
  return lanes;
}

}  // namespace lockstep
