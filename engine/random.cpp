// SPDX-License-Identifier: Apache-2.0
// Chooses the distribution for kind and dtype, and fills a shard's runs launch by launch.
#include "engine/random.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "engine/random_geometry.h"
#include "engine/random_walk.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "kernels/philox_fill.h"

namespace lockstep {
namespace {

struct Draw {
  const RandomCall& call;
  const std::vector<IndexList>& owned;
  const RandomState& state;
  const RandomGeometry& geometry;
  const at::Tensor& out;
};

PhiloxLaunch philox_launch(const RandomLaunch& launch, const RandomState& state) {
  return {state.seed, (state.offset + launch.offset) / 4, launch.threads};
}

// The part of a run that a launch serves, counted from the launch's first element.
template <class T>
PhiloxRun<T> part_of(const RandomRun& run, const RandomLaunch& launch, T* data) {
  const int64_t first = std::max(run.first, launch.first);
  const int64_t last = std::min(run.first + run.count, launch.first + launch.count);
  return {first - launch.first, last - launch.first, data + run.offset + (first - run.first) * run.stride,
          run.stride};
}

template <class G>
void fill_with(const Draw& draw, const G& distribution) {
  using T = typename G::Value;
  T* data = draw.out.mutable_data_ptr<T>();
  const std::vector<RandomLaunch>& launches = draw.geometry.launches;
  const auto ends_after = [](int64_t j, const RandomLaunch& launch) {
    return j < launch.first + launch.count;
  };
  const auto visit = [&](const RandomRun& run) {
    auto launch = std::upper_bound(launches.begin(), launches.end(), run.first, ends_after);
    for (; launch != launches.end() && launch->first < run.first + run.count; ++launch) {
      const PhiloxRun<T> part = part_of(run, *launch, data);
      if (draw.geometry.vector_width > 1)
        fill_vectorised(philox_launch(*launch, draw.state), draw.geometry.vector_width, distribution, part);
      else
        fill_grid_stride(philox_launch(*launch, draw.state), distribution, part);
    }
  };
  for_each_run(draw.owned, draw.call.shape, draw.geometry.rank_stride, draw.out.strides().vec(), visit);
}

[[noreturn]] void refuse_dtype(const RandomCall& call) {
  throw Error(
      concat("[random] cannot fill a tensor of ", dtype_name(call.dtype), " with this distribution."));
}

// Calls f with a value of the dtype's C++ type.
template <class F>
void with_float_type(const RandomCall& call, const F& f) {
  switch (call.dtype) {
    case c10::kDouble:
      return f(double{});
    case c10::kFloat:
      return f(float{});
    case c10::kBFloat16:
      return f(c10::BFloat16{});
    case c10::kHalf:
      return f(c10::Half{});
    default:
      refuse_dtype(call);
  }
}
template <class F>
void with_any_type(const RandomCall& call, const F& f) {
  switch (call.dtype) {
    case c10::kLong:
      return f(int64_t{});
    case c10::kInt:
      return f(int32_t{});
    case c10::kShort:
      return f(int16_t{});
    case c10::kChar:
      return f(int8_t{});
    case c10::kByte:
      return f(uint8_t{});
    case c10::kBool:
      return f(bool{});
    default:
      with_float_type(call, f);
  }
}

void fill_integers(const Draw& draw) {
  with_any_type(draw.call, [&](auto type) {
    using T = decltype(type);
    if (lanes_per_block(draw.call) == 4)
      fill_with(draw, IntegerValue<T, 4>(draw.call.low, draw.call.high));
    else
      fill_with(draw, IntegerValue<T, 2>(draw.call.low, draw.call.high));
  });
}

void fill_mask(const Draw& draw) {
  if (draw.call.dtype == c10::kDouble)
    fill_with(draw, KeepValue<double>(draw.call.a));
  else
    fill_with(draw, KeepValue<float>(draw.call.a));
}

void fill_values(const Draw& draw) {
  const RandomCall& call = draw.call;
  switch (call.kind) {
    case RandomKind::kUniform:
      return with_float_type(call,
                             [&](auto t) { fill_with(draw, UniformValue<decltype(t)>(call.a, call.b)); });
    case RandomKind::kNormal:
      return with_float_type(call,
                             [&](auto t) { fill_with(draw, NormalValue<decltype(t)>(call.a, call.b)); });
    case RandomKind::kRandint:
      return fill_integers(draw);
    case RandomKind::kBernoulli:
      return with_any_type(call, [&](auto t) { fill_with(draw, BernoulliValue<decltype(t)>(call.a)); });
    case RandomKind::kDropoutMask:
      return fill_mask(draw);
    default:
      throw NotBuilt("[random] this distribution is not built");
  }
}

void check_local(const RandomCall& call, const std::vector<IndexList>& owned, const at::Tensor& out) {
  bool fits = out.dim() == static_cast<int64_t>(owned.size()) && out.scalar_type() == value_dtype(call);
  for (size_t d = 0; fits && d < owned.size(); ++d)
    fits = out.size(static_cast<int64_t>(d)) == length(owned[d]);
  if (!fits)
    throw Broken(concat("a local tensor of shape ", out.sizes(), " does not fit what its rank owns"));
}

}  // namespace

void fill_local(const RandomCall& call, const std::vector<IndexList>& owned, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out) {
  LOCKSTEP_CHECK(state.offset % 4 == 0, "[random] the generator's offset must be a multiple of 4, but is ",
                 state.offset, ".");
  check_local(call, owned, out);
  const RandomGeometry geometry = random_geometry(call, device);
  if (out.numel() > 0) fill_values({call, owned, state, geometry, out});
}

at::Tensor draw_local(const RandomCall& call, const std::vector<IndexList>& owned,
                      const std::vector<int64_t>& local_stride, const RandomState& state,
                      const DeviceModel& device) {
  std::vector<int64_t> shape;
  for (const IndexList& list : owned) shape.push_back(length(list));
  // Below the dispatcher: factories on this thread may be routed to distributed tensors.
  const at::Tensor out = at::detail::empty_strided_cpu(shape, local_stride, value_dtype(call));
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
