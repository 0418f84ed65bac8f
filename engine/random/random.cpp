// SPDX-License-Identifier: Apache-2.0
// From a call and what a rank owns to what the kernels take: a distribution, a plan and an image.
#include "engine/random/random.h"

#include <ATen/EmptyTensor.h>

#include "engine/random/forged_words.h"
#include "engine/random/integer_range.h"
#include "engine/random/random_check.h"
#include "engine/random/random_geometry.h"
#include "engine/random/random_permutation.h"
#include "engine/random/random_walk.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// One past the largest of the integers that random_() draws; wraps for int64.
int64_t end_of_exact(c10::ScalarType dtype) {
  return static_cast<int64_t>(static_cast<uint64_t>(largest_exact_integer(dtype)) + 1);
}

void check_local(const RandomCall& call, const Owned& owned, const at::Tensor& out) {
  if (out.sizes() != at::IntArrayRef(local_shape(owned)) || out.scalar_type() != value_dtype(call))
    throw Broken(concat("a local tensor of shape ", out.sizes(), " does not fit what its rank owns"));
}

}  // namespace

Distribution distribution_of(const RandomCall& call) {
  const auto values = values_of(call.kind);
  if (!values.has_value()) throw Broken("a random operator without a distribution");
  Distribution d{*values, call.dtype, call.a, call.b, call.low, call.high};
  if (d.values == Values::kInteger && lanes_per_block(call) == 2) d.values = Values::kInteger64;
  if (call.kind == RandomKind::kRandom) d.low = 0, d.high = end_of_exact(call.dtype);
  if (call.kind == RandomKind::kRandomBits) d.low = d.high = 0;
  return d;
}

PhiloxSweep philox_plan(const RandomState& state, const RandomGeometry& geometry) {
  PhiloxSweep plan{state.seed, {}, geometry.vector_width};
  if (state.words != RandomWords::kPhilox) plan.forged = block_function(state.words);
  for (const auto& [first, count, threads, offset, subsequence] : geometry.launches)
    plan.launches.push_back(
        geometry.indexed ? PhiloxLaunch{first, count, threads, 0, state.offset / 4}
                         : PhiloxLaunch{first, count, threads, (state.offset + offset) / 4, subsequence});
  return plan;
}

void fill_local(const RandomCall& call, const Owned& owned, const RandomState& state,
                const RandomGeometry& geometry, const at::Tensor& out, Simd simd) {
  LOCKSTEP_CHECK(state.offset % 4 == 0, "[random] the generator's offset must be a multiple of 4, but is ",
                 state.offset, ".");
  check_local(call, owned, out);
  if (out.numel() == 0 || out.is_meta()) return;
  if (!out.is_cpu()) {  // the device's own kernels are not linked: drawn in the host's memory
    const at::Tensor drawn = at::detail::empty_strided_cpu(out.sizes(), out.strides(), out.scalar_type());
    fill_local(call, owned, state, geometry, drawn, simd);
    out.copy_(drawn);
    return;
  }
  if (call.kind == RandomKind::kRandperm) return fill_permutation(call, owned, state, geometry, out);
  const StreamImage image = stream_image(owned, call.shape, geometry.rank_stride, out.strides().vec());
  const Distribution distribution = distribution_of(call);
  LOCKSTEP_CHECK(fill(distribution, philox_plan(state, geometry), image, out.mutable_data_ptr(), simd), "[",
                 op_name(call.kind), "] does not fill a tensor of ", dtype_name(call.dtype), ".");
}

void fill_local(const RandomCall& call, const Owned& owned, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out) {
  fill_local(call, owned, state, random_geometry(call, device), out);
}

at::Tensor draw_local(const RandomCall& call, const Owned& owned, const std::vector<int64_t>& local_stride,
                      const RandomState& state, const DeviceModel& device) {
  // Below the dispatcher: factories on this thread may be routed to distributed tensors.
  const at::Tensor out = at::detail::empty_strided_cpu(local_shape(owned), local_stride, value_dtype(call));
  fill_local(call, owned, state, device, out);
  return out;
}

uint64_t advance(const RandomCall& call, const DeviceModel& device) {
  return random_geometry(call, device).advance;
}

std::vector<IndexList> owned_whole(const std::vector<int64_t>& shape) {
  std::vector<IndexList> owned;
  for (int64_t size : shape) owned.push_back(size == 0 ? IndexList{} : IndexList{{0, size}});
  return owned;
}

c10::ScalarType value_dtype(const RandomCall& call) {
  return call.kind == RandomKind::kDropoutMask ? c10::kBool : call.dtype;
}

void ClosedFormSource::fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                            RandomState& state) {
  fill_local(call, owned_whole(call.shape), state, device, out);
  state.offset += advance(call, device);
}

}  // namespace lockstep
