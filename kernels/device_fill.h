// SPDX-License-Identifier: Apache-2.0
// fill of philox_fill.h on a GPU: the same plan, image and distribution, the same bits. Built where nvcc is.
#pragma once
#include "kernels/philox_fill.h"

namespace lockstep {

struct DeviceFill {
  bool done = false;            // false: the distribution does not have the dtype
  const char* error = nullptr;  // CUDA's, or a plan whose words are forged; nullptr: none
};

// Starts the fill of device memory on a CUDA stream (nullptr: the default one), and returns before it ends.
// @pre out is aligned to 16 bytes, as fresh memory of CUDA is; a view's place belongs into the image's offset
DeviceFill fill_device(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image,
                       void* out, void* stream = nullptr);

}  // namespace lockstep
