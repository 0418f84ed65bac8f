// SPDX-License-Identifier: Apache-2.0
// fill_device for one half of the distributions; see device_fill.h.
#include "kernels/device_launch.cuh"

namespace lockstep::detail {

DeviceFill fill_device_counted(const Distribution& distribution, const PhiloxSweep& plan,
                               const StreamImage& image, void* out, void* stream) {
  DeviceFill result;
  result.done = with_counted_values(distribution, [&](const auto& values) {
    result.error = launch_boxes(values, plan, image, out, stream);
  });
  return result;
}

}  // namespace lockstep::detail
