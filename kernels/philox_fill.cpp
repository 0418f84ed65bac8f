// SPDX-License-Identifier: Apache-2.0
#include "kernels/philox_fill.h"

#include "kernels/philox_writer.h"

namespace lockstep {

bool fill(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image, void* out,
          Simd simd) {
  return with_values(distribution,
                     [&](const auto& values) { detail::fill_with(values, plan, image, out, simd); });
}

int lanes_of(const Distribution& distribution) {
  int lanes = 0;
  with_values(distribution, [&](const auto& values) { lanes = values.kLanes; });
  return lanes;
}

}  // namespace lockstep
