// SPDX-License-Identifier: Apache-2.0
// A shard as kernels see it: which elements of the global stream lie where in a rank's local memory.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/layout/layout.h"
#include "kernels/stream_image.h"

namespace lockstep {

// Law: the image's elements are those owned, each once, and each at its place in local memory. Element
// (i0, i1, …) has stream index sum(i_d * rank_stride[d]), where rank strides are a mixed radix in some order
// of the dimensions of `shape`.
StreamImage stream_image(const Owned& owned, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride);

// Calls `visit` for each run of that image.
void for_each_run(const Owned& owned, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride,
                  const std::function<void(const StreamRun&)>& visit);

}  // namespace lockstep
