// SPDX-License-Identifier: Apache-2.0
// Which kernel serves a call, with which distribution.
#include "oracle/random/random_simulation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <limits>
#include <numbers>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/random/random_formulas.h"
#include "oracle/random/random_kernels.h"
#include "oracle/random/random_permutation.h"
#include "oracle/random/random_support.h"

namespace lockstep::oracle {
namespace {

// A launch's surroundings.
struct Drawing {
  const RandomCall& call;
  const DeviceModel& device;
  const RandomState& state;
  void* whole;     // the memory, or
  ThreadLog* log;  // what some threads write to it

  template <class T>
  Memory<T> memory() const {
    return {static_cast<T*>(whole), log};
  }
};

template <class T, class Distribution>
void run_launches(const Drawing& d, const Distribution& distribution) {
  for (const auto& launch : plan_launches(d.call, d.device).launches)
    run_grid_stride(launch, d.device, d.state, d.memory<T>(), distribution);
}

// The call's numbers, each a function of one unit value.
template <class T, class Value>
void run_of_units(const Drawing& d, const Value& value) {
  using Acc = Accumulate<T>;
  run_launches<T>(d, [=](const Words& w) {
    const auto units = unit_values<Acc>(w);
    std::array<decltype(value(Acc{})), std::tuple_size_v<decltype(unit_values<Acc>(w))>> values{};
    for (size_t i = 0; i < units.size(); ++i) values[i] = value(units[i]);
    return values;
  });
}

// The same of standard normal values.
template <class T, class Value>
void run_of_normals(const Drawing& d, const Value& value) {
  run_launches<T>(d, [=](const Words& w) {
    auto values = normal_values<Accumulate<T>>(w);
    for (auto& z : values) z = value(z);
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

// The same of whole words, two or four of a block.
template <class T, class Value>
void run_of_words(const Drawing& d, const Value& value) {
  const auto distribution = [=]<size_t kCount>(const Words& w) {
    const auto words = whole_words<kCount>(w);
    std::array<decltype(convertible<T>(0)), kCount> values{};
    for (size_t i = 0; i < kCount; ++i) values[i] = convertible<T>(value(words[i]));
    return values;
  };
  if (unroll_of(d.call) == 2)
    run_launches<T>(d, [=](const Words& w) { return distribution.template operator()<2>(w); });
  else
    run_launches<T>(d, [=](const Words& w) { return distribution.template operator()<4>(w); });
}

template <class T>
void run_uniform(const Drawing& d) {
  using Acc = Accumulate<T>;
  const T from = static_cast<T>(static_cast<Acc>(d.call.a)), to = static_cast<T>(static_cast<Acc>(d.call.b));
  const T range = static_cast<T>(to - from);
  run_of_units<T>(d, [=](Acc u) {
    const T v = static_cast<T>(std::fma(u, static_cast<Acc>(range), static_cast<Acc>(from)));
    return v == to ? from : v;
  });
}

template <class T>
void run_exponential(const Drawing& d) {
  using Acc = Accumulate<T>;
  const Acc scale = -1 / static_cast<Acc>(d.call.a), half = std::numeric_limits<Acc>::epsilon() / 2;
  run_of_units<T>(d, [=](Acc u) { return scale * (u >= 1 - half ? -half : text_log(u)); });
}

template <class T>
void run_cauchy(const Drawing& d) {
  using Acc = Accumulate<T>;
  const auto median = static_cast<Acc>(d.call.a), scale = static_cast<Acc>(d.call.b);
  const Acc epsilon = std::numeric_limits<Acc>::epsilon();
  constexpr bool kClipped = std::is_same_v<Acc, float>;  // double's tangent overflows nowhere
  run_of_units<T>(d, [=](Acc u) {
    const Acc w = !kClipped ? u : u > 1 - epsilon ? 1 - epsilon : u < epsilon ? epsilon : u;
    return std::fma(text_tan(std::numbers::pi_v<Acc> * (w - Acc(0.5))), scale, median);
  });
}

// A number of trials as T: integers by way of int64, where what does not fit is its lowest, as x86 converts.
template <class T, class Acc>
auto trials(Acc x) {
  if constexpr (std::is_integral_v<T>) {
    const bool fits = x >= -0x1p63 && x < 0x1p63;
    return fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
  } else {
    return x;
  }
}

template <class T>
void run_geometric(const Drawing& d) {
  using Acc = Accumulate<T>;
  const auto p = static_cast<Acc>(d.call.a);
  if (p == 1) return run_of_units<T>(d, [](Acc) { return trials<T>(Acc{1}); });
  const auto log_of_failure = static_cast<Acc>(text_log(1 - static_cast<double>(p)));
  run_of_units<T>(d, [=](Acc u) { return trials<T>(std::ceil(text_log(u) / log_of_failure)); });
}

// Stock rounds the unit value to T, scales it in double, and rounds as c10 does: by way of float to 16 bits.
template <class T>
void run_rrelu(const Drawing& d) {
  using Acc = Accumulate<T>;
  const double lower = d.call.a, range = d.call.b - d.call.a;
  run_grid_stride(logical_launch(d.call), d.device, d.state, d.memory<T>(), [=](const Words& w) {
    auto values = unit_values<Acc>(w);
    for (auto& u : values)
      u = static_cast<Acc>(std::fma(static_cast<double>(static_cast<T>(u)), range, lower));
    return values;
  });
}

// Kinds whose values are real numbers.
template <class T>
void run_real(const Drawing& d) {
  using Acc = Accumulate<T>;
  const auto a = static_cast<Acc>(d.call.a), b = static_cast<Acc>(d.call.b);
  switch (d.call.kind) {
    case RandomKind::kUniform:
      return run_uniform<T>(d);
    case RandomKind::kNormal:
      return run_of_normals<T>(d, [=](Acc z) { return std::fma(z, b, a); });
    case RandomKind::kLogNormal:
      return run_of_normals<T>(d, [=](Acc z) { return text_exp(std::fma(z, b, a)); });
    case RandomKind::kExponential:
      return run_exponential<T>(d);
    case RandomKind::kCauchy:
      return run_cauchy<T>(d);
    case RandomKind::kRreluNoise:
      return run_rrelu<T>(d);
    default:
      throw Broken(concat("[random] ", name_of(d.call.kind), " has no simulated kernel"));
  }
}

// Kinds whose values are whole numbers, of any dtype.
template <class T>
bool run_whole(const Drawing& d) {
  using Acc = Accumulate<T>;
  switch (d.call.kind) {
    case RandomKind::kRandint: {
      const auto low = static_cast<uint64_t>(d.call.low), range = static_cast<uint64_t>(d.call.high) - low;
      run_of_words<T>(d, [=](uint64_t word) { return static_cast<int64_t>(word % range + low); });
      return true;
    }
    case RandomKind::kRandom: {
      const auto range = exact_integers(d.call.dtype);
      run_of_words<T>(d, [=](uint64_t word) { return static_cast<int64_t>(word % range); });
      return true;
    }
    case RandomKind::kRandomBits:
      run_of_words<T>(d, [](uint64_t word) { return static_cast<int64_t>(word); });
      return true;
    case RandomKind::kGeometric:
      run_geometric<T>(d);
      return true;
    case RandomKind::kBernoulli:
      run_of_units<T>(d, [p = static_cast<Acc>(d.call.a)](Acc u) { return u < p ? Acc{1} : Acc{0}; });
      return true;
    default:
      return false;
  }
}

void run_dropout(const Drawing& d) {
  // The kernel compares in the accumulation type: float, but double for doubles.
  const bool is_double = d.call.dtype == c10::ScalarType::Double;
  const double p = 1.0 - d.call.a, bound = is_double ? p : static_cast<double>(static_cast<float>(p));
  const auto keep = [=](const Words& w) {
    return std::array<bool, 4>{unit_float(w[0]) < bound, unit_float(w[1]) < bound, unit_float(w[2]) < bound,
                               unit_float(w[3]) < bound};
  };
  const auto mask = d.memory<bool>();
  if (const auto vector = dropout_vector(d.call); vector > 1)
    run_dropout_vector(numel(d.call), vector, d.device, d.state, mask, keep);
  else
    run_grid_stride(logical_launch(d.call), d.device, d.state, mask, keep);
}

template <class T>
void run_of_type(const Drawing& d) {
  if (run_whole<T>(d)) return;
  if constexpr (std::is_integral_v<T>) {
    throw Broken(concat("[random] ", name_of(d.call.kind), " of integers passed the check of dtypes"));
  } else {
    if (d.call.kind == RandomKind::kBernoulliUniform)
      run_bernoulli_tensor(rearranged_launch(d.call), d.state, d.memory<T>());
    else if (d.call.kind == RandomKind::kMultinomialUniform)
      run_multinomial(d.call.shape[0], d.call.shape[1], d.state, d.memory<T>());
    else
      run_real<T>(d);
  }
}

void run(const Drawing& d) {
  if (d.call.kind == RandomKind::kDropoutMask) return run_dropout(d);
  with_type(d.call.dtype, [&]<class T>() { run_of_type<T>(d); });
}

// Kinds that number elements as in a contiguous tensor: their kernels take one, or make one.
bool is_logical(const RandomCall& call) {
  if (call.kind == RandomKind::kDropoutMask) return dropout_vector(call) == 1;
  return call.kind == RandomKind::kRreluNoise || call.kind == RandomKind::kMultinomialUniform;
}

uint64_t advance_of(const RandomCall& call, const DeviceModel& device) {
  switch (call.kind) {
    case RandomKind::kDropoutMask:
    case RandomKind::kRreluNoise:
      return reserved(numel(call), unroll_of(call), device);
    case RandomKind::kBernoulliUniform:
      return kBernoulliTensorReserves;
    case RandomKind::kMultinomialUniform:
      return multinomial_reserves(call.shape[0]);
    default:
      return plan_launches(call, device).advance;
  }
}

// randperm: keys from the range of their dtype but its last value, by the kernel of random_(low, high); then
// the islands, from where those left the generator.
template <class Key>
at::Tensor permutation(int64_t n, int bits, c10::ScalarType dtype, const DeviceModel& device,
                       RandomState& state) {
  RandomCall fill;
  fill.kind = RandomKind::kRandint;
  fill.dtype = dtype;
  fill.low = std::numeric_limits<Key>::min();
  fill.high = std::numeric_limits<Key>::max();
  fill.shape = {n};
  fill.stride = {1};
  const auto drawn = at::empty({n}, at::TensorOptions(dtype));
  SimulatedSource().fill(fill, drawn, device, state);
  std::vector<Key> keys(drawn.const_data_ptr<Key>(), drawn.const_data_ptr<Key>() + n);
  auto data = sort_by_keys(keys, bits);
  shuffle_islands(keys, bits, state, data);
  state.offset += islands_reserve(n);
  return at::tensor(data, at::kLong);
}

void fill_permutation(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                      RandomState& state) {
  const int64_t n = call.shape[0];
  const int bits = permutation_bits(n);
  out.copy_(bits <= 32 ? permutation<int32_t>(n, bits, at::kInt, device, state)
                       : permutation<int64_t>(n, bits, at::kLong, device, state));
}

}  // namespace

void SimulatedSource::fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                           RandomState& state) {
  check_supported(call);
  if (numel(call) == 0) return;
  const at::NoGradGuard no_grad;
  if (call.kind == RandomKind::kRandperm) return fill_permutation(call, out, device, state);
  const auto stride = is_logical(call) ? contiguous_strides(call.shape) : call.stride;
  const auto dtype = call.kind == RandomKind::kDropoutMask ? c10::ScalarType::Bool : call.dtype;
  const bool direct = out.strides().vec() == stride && out.scalar_type() == dtype;
  const auto memory = direct ? out : at::empty_strided(call.shape, stride, at::TensorOptions(dtype));
  run({call, device, state, memory.data_ptr(), nullptr});
  state.offset += advance_of(call, device);
  if (!direct) out.copy_(memory);
}

ThreadWrites simulate_threads(const RandomCall& call, const DeviceModel& device, const RandomState& state,
                              std::vector<int64_t> threads) {
  check_supported(call);
  LOCKSTEP_CHECK(call.kind != RandomKind::kRandperm,
                 "[random] randperm sorts all keys: no thread alone knows its values");
  ThreadLog log{std::move(threads), {}, {}};
  if (numel(call) > 0) run({call, device, state, nullptr, &log});
  const auto dtype = call.kind == RandomKind::kDropoutMask ? c10::ScalarType::Bool : call.dtype;
  const auto values = at::empty({std::ssize(log.places)}, at::TensorOptions(dtype));
  if (!log.bytes.empty()) std::memcpy(values.data_ptr(), log.bytes.data(), log.bytes.size());
  return {std::move(log.places), values, numel(call) > 0 ? advance_of(call, device) : 0};
}

}  // namespace lockstep::oracle
