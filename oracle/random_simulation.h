// SPDX-License-Identifier: Apache-2.0
// The random stream of a single CUDA device, by literal simulation: each kernel launch is run block by block,
// thread by thread, with its loop and its generator. Slow and plain on purpose; shares no code with the
// engine's closed form.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/random_source.h"

namespace lockstep::oracle {

class SimulatedSource : public RandomSource {
 public:
  // Refuses the dtypes, ranges and sizes for which stock has no kernel, or one that overflows its indices.
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
};

}  // namespace lockstep::oracle
