// SPDX-License-Identifier: Apache-2.0
// The one kernel: a grid-stride loop over the items of a box. What an item is stands in device_work.h.
#include "kernels/device_fill.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/device_write.h"

namespace lockstep {
namespace {

constexpr int kDeviceBlock = 256;

template <class G>
__global__ void __launch_bounds__(kDeviceBlock)
    fill_items(const __grid_constant__ DeviceBox box, const __grid_constant__ G values,
               typename G::Value* out) {
  const int64_t step = int64_t{gridDim.x} * kDeviceBlock;
  for (int64_t item = int64_t{blockIdx.x} * kDeviceBlock + threadIdx.x; item < box.items; item += step)
    write_item(box, item, values, out);
}

template <class G>
const char* launch_boxes(const G& values, const PhiloxSweep& plan, const StreamImage& image, void* out,
                         void* stream) {
  constexpr int64_t kMostBlocks = 1 << 16;
  for (const DeviceBox& box : device_boxes(plan, image, G::kLanes)) {
    const int64_t blocks = std::min((box.items + kDeviceBlock - 1) / kDeviceBlock, kMostBlocks);
    fill_items<<<static_cast<unsigned>(blocks), kDeviceBlock, 0, static_cast<cudaStream_t>(stream)>>>(
        box, values, static_cast<typename G::Value*>(out));
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return cudaGetErrorString(error);
  }
  return nullptr;
}

}  // namespace

DeviceFill fill_device(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image,
                       void* out, void* stream) {
  DeviceFill result;
  if (plan.forged != nullptr) return {false, "forged words are for the host's fill alone"};
  result.done = with_values(distribution, [&](const auto& values) {
    result.error = launch_boxes(values, plan, image, out, stream);
  });
  return result;
}

}  // namespace lockstep
