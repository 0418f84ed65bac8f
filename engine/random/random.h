// SPDX-License-Identifier: Apache-2.0
// The single device's random stream, sharded: each rank computes just its elements of what one device would
// draw.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/layout/layout.h"
#include "engine/random/random_geometry.h"
#include "engine/random/tensor_source.h"
#include "engine/stream/random_call.h"
#include "engine/stream/random_source.h"
#include "kernels/philox_fill.h"

namespace lockstep {

// Law: the local tensor of one rank holds exactly the elements that `owned` names of the tensor that the
// single device would draw from `state`, whatever the sharding; the union over ranks is that tensor. The
// result has the given strides; bool for a dropout mask (true: keep), else call.dtype. Work is proportional
// to the local tensor.
at::Tensor draw_local(const RandomCall& call, const Owned& owned, const std::vector<int64_t>& local_stride,
                      const RandomState& state, const DeviceModel& device);

// The same into an existing local tensor of any strides.
void fill_local(const RandomCall& call, const Owned& owned, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out);

// The same by the geometry given, which need not be a device's, and with the instructions given.
void fill_local(const RandomCall& call, const Owned& owned, const RandomState& state,
                const RandomGeometry& geometry, const at::Tensor& out, Simd simd = best_simd());

// How far the call moves the generator's offset: that of the global launch, on every rank alike, empty ones
// too; 0 for a tensor without elements.
uint64_t advance(const RandomCall& call, const DeviceModel& device);

// What the kernels are told: which values, and which block and lane each element gets. Not for kRandperm.
Distribution distribution_of(const RandomCall& call);
PhiloxSweep philox_plan(const RandomState& state, const RandomGeometry& geometry);

// Everything along each dimension: what a rank owns of a replicated tensor.
std::vector<IndexList> owned_whole(const std::vector<int64_t>& shape);

// The dtype of the tensor that a call fills.
c10::ScalarType value_dtype(const RandomCall& call);

// Serves random operators on plain tensors (RandomScope) from the closed form.
class ClosedFormSource : public TensorSource {
 public:
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
};

}  // namespace lockstep
