// SPDX-License-Identifier: Apache-2.0
// The runs of a shard: which elements of the global stream follow each other in a rank's local memory.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/layout.h"

namespace lockstep {

// Elements [first, first + count) of the stream lie at local offsets `offset`, `offset + stride`, …
struct RandomRun {
  int64_t first = 0;
  int64_t count = 0;
  int64_t offset = 0;
  int64_t stride = 1;
};

// Calls `visit` for runs that cover each owned element exactly once. Element (i0, i1, …) has stream index
// sum(i_d * rank_stride[d]), where rank strides are a mixed radix in some order of the dimensions of `shape`.
void for_each_run(const std::vector<IndexList>& owned, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride,
                  const std::function<void(const RandomRun&)>& visit);

}  // namespace lockstep
