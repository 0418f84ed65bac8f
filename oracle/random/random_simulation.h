// SPDX-License-Identifier: Apache-2.0
// The random stream of a single CUDA device, by literal simulation: each kernel launch is run block by block,
// thread by thread, with its loop and its generator. Slow and plain on purpose; shares no code with the
// engine's closed form.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "oracle/random/literal_source.h"

namespace lockstep::oracle {

class SimulatedSource : public LiteralSource {
 public:
  // Refuses the dtypes, ranges and sizes for which stock has no kernel, or one that overflows its indices.
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
};

// What the threads of these numbers write, in each launch of a call whose tensor need not fit in memory.
struct ThreadWrites {
  std::vector<int64_t> places;  // in elements of memory, by the strides that the kernel numbers by
  at::Tensor values;            // one for each place
  uint64_t advance = 0;         // of the generator by the whole call
};
// Law: fill() writes the same values to the same places. Throws Error for randperm, whose values need all
// keys.
ThreadWrites simulate_threads(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                              std::vector<int64_t> threads);

}  // namespace lockstep::oracle
