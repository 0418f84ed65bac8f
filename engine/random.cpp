// SPDX-License-Identifier: Apache-2.0
// Chooses the distribution for kind and dtype, and fills a shard's runs launch by launch.
#include "engine/random.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "engine/random_dtypes.h"
#include "engine/random_geometry.h"
#include "engine/random_permutation.h"
#include "engine/random_walk.h"
#include "engine/values/error.h"
#include "engine/values/integer_range.h"
#include "kernels/philox_fill.h"
#include "kernels/transformed_values.h"

namespace lockstep {
namespace {

struct Draw {
  const RandomCall& call;
  const std::vector<IndexList>& owned;
  const RandomState& state;
  const RandomGeometry& geometry;
  const at::Tensor& out;
};

PhiloxLaunch philox_launch(const RandomLaunch& launch, const Draw& draw) {
  const RandomState& state = draw.state;
  if (draw.geometry.indexed) return {state.seed, 0, launch.threads, state.offset / 4};
  return {state.seed, (state.offset + launch.offset) / 4, launch.threads, launch.subsequence};
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
        fill_vectorised(philox_launch(*launch, draw), draw.geometry.vector_width, distribution, part);
      else
        fill_grid_stride(philox_launch(*launch, draw), distribution, part);
    }
  };
  for_each_run(draw.owned, draw.call.shape, draw.geometry.rank_stride, draw.out.strides().vec(), visit);
}

// random_ in its forms: low and high, and the number of words, by kind.
void fill_integers(const Draw& draw, int64_t low, int64_t high) {
  with_any_type(draw.call, [&](auto type) {
    using T = decltype(type);
    if (lanes_per_block(draw.call) == 4)
      fill_with(draw, IntegerValue<T, 4>(low, high));
    else
      fill_with(draw, IntegerValue<T, 2>(low, high));
  });
}

void fill_mask(const Draw& draw) {
  if (draw.call.dtype == c10::kDouble)
    fill_with(draw, KeepValue<double>(draw.call.a));
  else
    fill_with(draw, KeepValue<float>(draw.call.a));
}

// The floating distributions with two arguments.
template <template <class> class G>
void fill_floats(const Draw& draw) {
  with_float_type(draw.call,
                  [&](auto type) { fill_with(draw, G<decltype(type)>(draw.call.a, draw.call.b)); });
}

// One past the largest of the integers that random_() draws; wraps for int64.
int64_t end_of_exact(c10::ScalarType dtype) {
  return static_cast<int64_t>(static_cast<uint64_t>(largest_exact_integer(dtype)) + 1);
}

void fill_values(const Draw& draw) {
  const RandomCall& call = draw.call;
  switch (call.kind) {
    case RandomKind::kUniform:
      return fill_floats<UniformValue>(draw);
    case RandomKind::kNormal:
      return fill_floats<NormalValue>(draw);
    case RandomKind::kLogNormal:
      return fill_floats<LogNormalValue>(draw);
    case RandomKind::kCauchy:
      return fill_floats<CauchyValue>(draw);
    case RandomKind::kRreluNoise:
      return fill_floats<SlopeValue>(draw);
    case RandomKind::kExponential:
      return with_float_type(call, [&](auto t) { fill_with(draw, ExponentialValue<decltype(t)>(call.a)); });
    case RandomKind::kGeometric:
      return with_number_type(call, [&](auto t) { fill_with(draw, GeometricValue<decltype(t)>(call.a)); });
    case RandomKind::kBernoulli:
      return with_any_type(call, [&](auto t) { fill_with(draw, BernoulliValue<decltype(t)>(call.a)); });
    case RandomKind::kBernoulliUniform:
    case RandomKind::kMultinomialUniform:
      return with_float_type(call, [&](auto t) { fill_with(draw, UniformWord<decltype(t)>()); });
    case RandomKind::kRandint:
      return fill_integers(draw, call.low, call.high);
    case RandomKind::kRandom:
      return fill_integers(draw, 0, end_of_exact(call.dtype));
    case RandomKind::kRandomBits:
      return fill_integers(draw, 0, 0);
    case RandomKind::kRandperm:
      return fill_permutation(call, draw.owned, draw.state, draw.geometry, draw.out);
    case RandomKind::kDropoutMask:
      return fill_mask(draw);
  }
  throw Broken("an unknown random operator");
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
                const RandomGeometry& geometry, const at::Tensor& out) {
  LOCKSTEP_CHECK(state.offset % 4 == 0, "[random] the generator's offset must be a multiple of 4, but is ",
                 state.offset, ".");
  check_local(call, owned, out);
  if (out.numel() > 0) fill_values({call, owned, state, geometry, out});
}

void fill_local(const RandomCall& call, const std::vector<IndexList>& owned, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out) {
  fill_local(call, owned, state, random_geometry(call, device), out);
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
