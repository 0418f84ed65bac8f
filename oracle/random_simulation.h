// SPDX-License-Identifier: Apache-2.0
// The random stream of a single CUDA device, by literal simulation: each kernel launch is run block by block,
// thread by thread, with its loop and its generator. Slow and plain on purpose; shares no code with the
// engine's closed form.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/values/random_source.h"

namespace lockstep::oracle {

// One launch of a kernel over a box of the tensor.
struct Launch {
  struct Axis {
    int64_t size = 0;
    int64_t stride = 0;  // in elements of memory
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // fastest first, merged where memory is continuous
  int64_t first = 0;       // memory offset of the box, in elements
  uint64_t offset = 0;     // of the generator when the launch starts, relative to the call
  int64_t count() const;
};

struct LaunchPlan {
  std::vector<Launch> launches;  // more than one where a tensor is too large for 32-bit indexing
  uint64_t advance = 0;          // of the generator by the whole call; 0 for a tensor without elements
};

// How stock libtorch launches a distribution kernel (uniform, normal, randint, bernoulli) on the call's
// tensor.
LaunchPlan plan_launches(const RandomCall& call, const DeviceModel& device);
// How many elements a thread of the dropout kernel takes at once: 8, 4, 2, or 1 for the scalar kernel.
int64_t dropout_vector(const RandomCall& call);

class SimulatedSource : public RandomSource {
 public:
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
};

}  // namespace lockstep::oracle
