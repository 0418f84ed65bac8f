// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_fill.h"

namespace lockstep {

DeviceFill fill_device(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image,
                       void* out, void* stream) {
  const DeviceFill floats = detail::fill_device_floats(distribution, plan, image, out, stream);
  return floats.done ? floats : detail::fill_device_counted(distribution, plan, image, out, stream);
}

}  // namespace lockstep
