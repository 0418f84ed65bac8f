// SPDX-License-Identifier: Apache-2.0
// Computes and stores the values of one item of device_work.h: the body of the GPU's kernel, and of the test
// that runs it on the host.
#pragma once
#include "kernels/device_work.h"
#include "kernels/transformed_values.h"

namespace lockstep {

// The values of an item, to be stored by one instruction (two for 64-bit values).
template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) DevicePack {
  T value[kDeviceWidth];
};

namespace detail {

template <class G>
LOCKSTEP_HOST_DEVICE void store(const DeviceBox& box, const DevicePack<typename G::Value>& pack, int32_t low,
                                int32_t high, int64_t offset, typename G::Value* out) {
  if (box.aligned && low == 0 && high == kDeviceWidth) {
    *reinterpret_cast<DevicePack<typename G::Value>*>(out + offset) = pack;
    return;
  }
  for (int i = 0; i < kDeviceWidth; ++i)
    if (low <= i && i < high) out[offset + i * box.local_stride[0]] = pack.value[i];
}

template <class G>
LOCKSTEP_HOST_DEVICE PhiloxBlock block_of(const DeviceBox& box, const DeviceWork& work, int64_t i) {
  return philox(box.seed, box.subsequence + static_cast<uint64_t>(work.thread + i),
                box.counter + static_cast<uint64_t>(work.draw));
}

template <class G>
LOCKSTEP_HOST_DEVICE void write_words(const DeviceBox& box, const DeviceWork& work, const G& values,
                                      typename G::Value* out) {
  const PhiloxBlock block = block_of<G>(box, work, 0);
  DevicePack<typename G::Value> pack;
  for (int i = 0; i < G::kLanes; ++i) pack.value[i] = values.value(block, i);
  store<G>(box, pack, work.low[0], work.high[0], work.offset[0], out);
}

template <class G>
LOCKSTEP_HOST_DEVICE void write_lanes(const DeviceBox& box, const DeviceWork& work, const G& values,
                                      typename G::Value* out) {
  PhiloxBlock block[kDeviceWidth];
  for (int i = 0; i < kDeviceWidth; ++i) block[i] = block_of<G>(box, work, i);
  for (int lane = 0; lane < G::kLanes; lane += 2) {
    const bool wanted[2] = {work.low[lane] < work.high[lane], work.low[lane + 1] < work.high[lane + 1]};
    if (!wanted[0] && !wanted[1]) continue;
    DevicePack<typename G::Value> pack[2];
    for (int i = 0; i < kDeviceWidth; ++i) {  // lanes of a pair share work
      pack[0].value[i] = values.value(block[i], lane);
      pack[1].value[i] = values.value(block[i], lane + 1);
    }
    for (int k = 0; k < 2; ++k)
      if (wanted[k])
        store<G>(box, pack[k], work.low[lane + k], work.high[lane + k], work.offset[lane + k], out);
  }
}

}  // namespace detail

// Law: the elements that the item wants get the values of their blocks and lanes; nothing else is written.
template <class G>
LOCKSTEP_HOST_DEVICE void write_item(const DeviceBox& box, int64_t item, const G& values,
                                     typename G::Value* out) {
  if (box.mode == DeviceMode::kVectors)
    return detail::write_words(box, work_of<G::kLanes>(box, item), values, out);
  for (int64_t skip = 0; skip < kDeviceWidth;) {
    const DeviceWork work = work_of<G::kLanes>(box, item, skip);
    detail::write_lanes(box, work, values, out);
    if (box.mode != DeviceMode::kElements) return;
    const int64_t done = work.high[0] + work.high[1] + work.high[2] + work.high[3];
    if (done == 0) return;  // the end of a row
    skip += done;
  }
}

}  // namespace lockstep
