// SPDX-License-Identifier: Apache-2.0
// fill for one half of the distributions; see philox_fill.h.
#include "kernels/philox_fill.h"
#include "kernels/philox_writer.h"

namespace lockstep::detail {

bool fill_floats(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image,
                 void* out, Simd simd) {
  return with_float_values(distribution,
                           [&](const auto& values) { fill_with(values, plan, image, out, simd); });
}

}  // namespace lockstep::detail
