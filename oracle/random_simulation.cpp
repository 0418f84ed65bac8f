// SPDX-License-Identifier: Apache-2.0
#include "oracle/random_simulation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/random_simulation_thread.h"

namespace lockstep::oracle {
namespace {

constexpr int64_t kBlock = 256;

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t grid_of(int64_t count, const DeviceModel& device) {
  LOCKSTEP_CHECK(device.sm_count >= 1 && device.threads_per_sm >= kBlock, "[random] device ",
                 to_string(device), " cannot run a block of ", kBlock, " threads");
  return std::min(device.sm_count * (device.threads_per_sm / kBlock), ceil_divide(count, kBlock));
}

int64_t numel(const RandomCall& call) {
  int64_t count = 1;
  for (const auto n : call.shape) count *= n;
  return count;
}

// Two words a value: doubles, and integers from a range of 2^28 or more.
int64_t unroll_of(const RandomCall& call) {
  if (call.kind == RandomKind::kRandint)
    return static_cast<uint64_t>(call.high) - static_cast<uint64_t>(call.low) >= uint64_t{1} << 28 ? 2 : 4;
  return call.dtype == c10::ScalarType::Double && call.kind != RandomKind::kDropoutMask ? 2 : 4;
}

// curand words that each thread of a launch reserves.
uint64_t reserved(int64_t count, int64_t unroll, const DeviceModel& device) {
  return static_cast<uint64_t>((count - 1) / (kBlock * grid_of(count, device) * unroll) + 1) * 4;
}

// TensorIterator: dimensions by stride, fastest first; neighbours without a gap are one.
std::vector<Launch::Axis> iterator_axes(const RandomCall& call) {
  std::vector<Launch::Axis> axes;
  for (size_t d = 0; d < call.shape.size(); ++d)
    if (call.shape[d] != 1) axes.push_back({call.shape[d], call.stride[d]});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const auto& a, const auto& b) { return a.stride < b.stride; });
  std::vector<Launch::Axis> merged;
  for (const auto& axis : axes) {
    if (!merged.empty() && merged.back().size * merged.back().stride == axis.stride)
      merged.back().size *= axis.size;
    else
      merged.push_back(axis);
  }
  return merged;
}

bool fits_32_bits(const Launch& launch, int64_t element_bytes) {
  int64_t last = 1;
  for (const auto& axis : launch.axes) last += (axis.size - 1) * axis.stride * element_bytes;
  return last <= std::numeric_limits<int32_t>::max();
}

// TensorIterator's split of the axis that spans most memory; of equals the slower.
std::pair<Launch, Launch> halves(const Launch& launch) {
  size_t widest = 0;
  for (size_t i = 0; i < launch.axes.size(); ++i) {
    const auto span = [&](size_t a) { return (launch.axes[a].size - 1) * launch.axes[a].stride; };
    if (span(i) >= span(widest)) widest = i;
  }
  Launch low = launch, high = launch;
  low.axes[widest].size /= 2;
  high.axes[widest].size -= low.axes[widest].size;
  high.first += low.axes[widest].size * launch.axes[widest].stride;
  return {low, high};
}

int64_t memory_of(const Launch& launch, int64_t index) {
  int64_t place = launch.first;
  for (const auto& axis : launch.axes) {
    place += index % axis.size * axis.stride;
    index /= axis.size;
  }
  return place;
}

// distribution_elementwise_grid_stride_kernel: every thread of every block runs its loop.
template <class T, class Distribution>
void run_grid_stride(const Launch& launch, const DeviceModel& device, const RandomState& state, T* memory,
                     const Distribution& distribution) {
  constexpr auto kUnroll = static_cast<int64_t>(std::tuple_size_v<decltype(distribution(Words{}))>);
  const int64_t count = launch.count(), grid = grid_of(count, device), threads = kBlock * grid;
  for (int64_t block = 0; block < grid; ++block)
    for (int64_t thread = 0; thread < kBlock; ++thread) {
      const int64_t index = block * kBlock + thread;
      ThreadGenerator generator(state.seed, static_cast<uint64_t>(index), state.offset + launch.offset);
      // The kernel's loop runs on to a rounded size; draws that no lane keeps change nothing and are left
      // out.
      for (int64_t linear = index; linear < count; linear += threads * kUnroll) {
        const auto values = distribution(generator.next());
        for (int64_t lane = 0; lane < kUnroll; ++lane) {
          const int64_t element = linear + threads * lane;
          if (element < count)
            memory[memory_of(launch, element)] = static_cast<T>(values[static_cast<size_t>(lane)]);
        }
      }
    }
}

// fused_dropout_kernel_vec: a thread takes `vector` neighbours in memory at once.
template <class Keep>
void run_dropout_vector(int64_t count, int64_t vector, const DeviceModel& device, const RandomState& state,
                        bool* memory, const Keep& keep) {
  const int64_t grid = grid_of(count, device), threads = kBlock * grid;
  for (int64_t index = 0; index < threads; ++index) {
    ThreadGenerator generator(state.seed, static_cast<uint64_t>(index), state.offset);
    for (int64_t linear = index * vector; linear < count; linear += threads * vector)
      for (int64_t first = 0; first < vector; first += 4) {
        const auto kept = keep(generator.next());
        for (int64_t lane = 0; lane < std::min<int64_t>(4, vector); ++lane)
          memory[linear + first + lane] = kept[static_cast<size_t>(lane)];
      }
  }
}

template <class T, class Distribution>
void run_launches(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                  const at::Tensor& out, const Distribution& distribution) {
  for (const auto& launch : plan_launches(call, device).launches)
    run_grid_stride(launch, device, state, out.data_ptr<T>(), distribution);
}

template <class T>
T argument(double x) {
  return static_cast<T>(static_cast<Accumulate<T>>(x));
}

template <class T>
void run_real(const RandomCall& call, const DeviceModel& device, const RandomState& state,
              const at::Tensor& out) {
  using Acc = Accumulate<T>;
  if (call.kind == RandomKind::kNormal) {
    const auto mean = static_cast<Acc>(call.a), deviation = static_cast<Acc>(call.b);
    return run_launches<T>(call, device, state, out, [=](const Words& w) {
      auto values = normal_values<Acc>(w);
      for (auto& z : values) z = std::fma(z, deviation, mean);
      return values;
    });
  }
  const T from = argument<T>(call.a), to = argument<T>(call.b), range = static_cast<T>(to - from);
  run_launches<T>(call, device, state, out, [=](const Words& w) {
    auto values = unit_values<Acc>(w);
    for (auto& u : values) {
      const T v = static_cast<T>(std::fma(u, static_cast<Acc>(range), static_cast<Acc>(from)));
      u = static_cast<Acc>(v == to ? from : v);
    }
    return values;
  });
}

// An integer as T: by way of float for the 16-bit floats, as c10 converts.
template <class T>
auto convertible(int64_t x) {
  if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>)
    return static_cast<float>(x);
  else
    return x;
}

template <class T>
void run_integers(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                  const at::Tensor& out) {
  const auto low = static_cast<uint64_t>(call.low), range = static_cast<uint64_t>(call.high) - low;
  const auto value = [=](uint64_t word) { return convertible<T>(static_cast<int64_t>(word % range + low)); };
  using Value = decltype(value(0));
  if (unroll_of(call) == 2)
    return run_launches<T>(call, device, state, out, [=](const Words& w) {
      return std::array<Value, 2>{value(uint64_t{w[0]} << 32 | w[1]), value(uint64_t{w[2]} << 32 | w[3])};
    });
  run_launches<T>(call, device, state, out, [=](const Words& w) {
    return std::array<Value, 4>{value(w[0]), value(w[1]), value(w[2]), value(w[3])};
  });
}

template <class T>
void run_bernoulli(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                   const at::Tensor& out) {
  using Acc = Accumulate<T>;
  const auto p = static_cast<Acc>(call.a);
  run_launches<T>(call, device, state, out, [=](const Words& w) {
    auto values = unit_values<Acc>(w);
    for (auto& u : values) u = u < p ? 1 : 0;
    return values;
  });
}

void run_dropout(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                 const at::Tensor& out) {
  // The kernel compares in the accumulation type: float, but double for doubles.
  const bool is_double = call.dtype == c10::ScalarType::Double;
  const double bound = is_double ? 1.0 - call.a : static_cast<double>(static_cast<float>(1.0 - call.a));
  const auto keep = [=](const Words& w) {
    return std::array<bool, 4>{unit_float(w[0]) < bound, unit_float(w[1]) < bound, unit_float(w[2]) < bound,
                               unit_float(w[3]) < bound};
  };
  const auto vector = dropout_vector(call);
  if (vector > 1) return run_dropout_vector(numel(call), vector, device, state, out.data_ptr<bool>(), keep);
  Launch whole;  // the scalar kernel numbers elements logically: `out` is contiguous here
  whole.axes = {{numel(call), 1}};
  run_grid_stride(whole, device, state, out.data_ptr<bool>(), keep);
}

void run(const RandomCall& call, const DeviceModel& device, const RandomState& state, const at::Tensor& out) {
  const auto of_type = [&](auto type) {
    using T = decltype(type);
    if (call.kind == RandomKind::kRandint) return run_integers<T>(call, device, state, out);
    if (call.kind == RandomKind::kBernoulli) return run_bernoulli<T>(call, device, state, out);
    if constexpr (!std::is_integral_v<T>)
      run_real<T>(call, device, state, out);
    else
      throw Error(
          concat("[random] uniform and normal values need a floating dtype, not ", dtype_name(call.dtype)));
  };
  switch (call.dtype) {
    case c10::ScalarType::Double:
      return of_type(double{});
    case c10::ScalarType::Float:
      return of_type(float{});
    case c10::ScalarType::Half:
      return of_type(c10::Half{});
    case c10::ScalarType::BFloat16:
      return of_type(c10::BFloat16{});
    case c10::ScalarType::Long:
      return of_type(int64_t{});
    case c10::ScalarType::Int:
      return of_type(int32_t{});
    case c10::ScalarType::Short:
      return of_type(int16_t{});
    case c10::ScalarType::Char:
      return of_type(int8_t{});
    case c10::ScalarType::Byte:
      return of_type(uint8_t{});
    case c10::ScalarType::Bool:
      return of_type(bool{});
    default:
      throw Error(concat("[random] no stream for ", dtype_name(call.dtype)));
  }
}

}  // namespace

int64_t Launch::count() const {
  int64_t count = 1;
  for (const auto& axis : axes) count *= axis.size;
  return count;
}

LaunchPlan plan_launches(const RandomCall& call, const DeviceModel& device) {
  LaunchPlan plan;
  if (numel(call) == 0) return plan;
  const auto bytes = static_cast<int64_t>(c10::elementSize(call.dtype));
  const auto unroll = unroll_of(call);
  std::vector<Launch> waiting(1);
  waiting[0].axes = iterator_axes(call);
  // The kernel's entry reserves words for all; where it must split, each part reserves its own and these are
  // lost.
  if (!fits_32_bits(waiting[0], bytes)) plan.advance = reserved(numel(call), unroll, device);
  while (!waiting.empty()) {
    auto launch = std::move(waiting.back());
    waiting.pop_back();
    if (!fits_32_bits(launch, bytes)) {
      auto [low, high] = halves(launch);
      waiting.push_back(std::move(high));
      waiting.push_back(std::move(low));
      continue;
    }
    launch.offset = plan.advance;
    plan.advance += reserved(launch.count(), unroll, device);
    plan.launches.push_back(std::move(launch));
  }
  return plan;
}

int64_t dropout_vector(const RandomCall& call) {
  const auto axes = iterator_axes(call);
  const bool dense = axes.empty() || (axes.size() == 1 && axes[0].stride == 1);
  if (!dense) return 1;
  auto vector = static_cast<int64_t>(16 / c10::elementSize(call.dtype));
  while (numel(call) % vector != 0) vector /= 2;
  return vector;
}

void SimulatedSource::fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                           RandomState& state) {
  if (numel(call) == 0) return;
  const bool is_mask = call.kind == RandomKind::kDropoutMask;
  const bool logical = is_mask && dropout_vector(call) == 1;
  const auto stride = logical ? contiguous_strides(call.shape) : call.stride;
  const auto dtype = is_mask ? c10::ScalarType::Bool : call.dtype;
  const bool direct = out.strides().vec() == stride && out.scalar_type() == dtype;
  const at::NoGradGuard no_grad;
  const auto memory = direct ? out : at::empty_strided(call.shape, stride, at::TensorOptions(dtype));
  if (is_mask) {
    run_dropout(call, device, state, memory);
    state.offset += reserved(numel(call), 4, device);
  } else {
    run(call, device, state, memory);
    state.offset += plan_launches(call, device).advance;
  }
  if (!direct) out.copy_(memory);
}

}  // namespace lockstep::oracle
