// SPDX-License-Identifier: Apache-2.0
// The kernels of stock libtorch's random operators, as launched: every thread of every block, its generator
// and its loop. A kernel's distribution maps what one curand4 yields to the values of consecutive lanes.
#pragma once
#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "oracle/random/random_forgery.h"
#include "oracle/random/random_launches.h"

namespace lockstep::oracle {

// Of a tensor too large to hold: what these threads of each launch write, in the order in which they do.
struct ThreadLog {
  std::vector<int64_t> threads;
  std::vector<int64_t> places;  // in elements of memory
  std::vector<uint8_t> bytes;   // the elements written there
};

// The memory of a simulated kernel: all of it, or a log of what some threads write.
template <class T>
struct Memory {
  T* whole;
  ThreadLog* log;  // if set, only its threads run

  void put(int64_t place, T value) const {
    if (log == nullptr) {
      whole[place] = value;
      return;
    }
    log->places.push_back(place);
    const auto end = log->bytes.size();
    log->bytes.resize(end + sizeof(T));
    std::memcpy(log->bytes.data() + end, &value, sizeof(T));
  }
};

// Runs the threads of a launch of `count` threads, by number.
template <class T, class Run>
void each_thread(int64_t count, const Memory<T>& memory, const Run& run) {
  if (memory.log == nullptr) {
    for (int64_t index = 0; index < count; ++index) run(index);
    return;
  }
  for (const auto index : memory.log->threads)
    if (index < count) run(index);
}

// distribution_elementwise_grid_stride_kernel, and the loops of scalar dropout and rrelu, which are the same.
template <class T, class Distribution>
void run_grid_stride(const Launch& launch, const DeviceModel& device, const RandomState& state,
                     const Memory<T>& memory, const Distribution& distribution) {
  constexpr auto kUnroll = static_cast<int64_t>(std::tuple_size_v<decltype(distribution(Words{}))>);
  const int64_t count = launch.count(), threads = kBlock * grid_of(count, device);
  each_thread(threads, memory, [&](int64_t index) {
    auto generator = thread_of(state, static_cast<uint64_t>(index), launch.offset);
    // The kernel's loop runs on to a rounded size; draws that no lane keeps change nothing and are left
    // out.
    for (int64_t linear = index; linear < count; linear += threads * kUnroll) {
      const auto values = distribution(generator.next());
      for (int64_t lane = 0; lane < kUnroll; ++lane) {
        const int64_t element = linear + threads * lane;
        if (element < count)
          memory.put(launch.memory_of(element), static_cast<T>(values[static_cast<size_t>(lane)]));
      }
    }
  });
}

// fused_dropout_kernel_vec: a thread takes `vector` neighbours in memory at once.
template <class Keep>
void run_dropout_vector(int64_t count, int64_t vector, const DeviceModel& device, const RandomState& state,
                        const Memory<bool>& memory, const Keep& keep) {
  const int64_t threads = kBlock * grid_of(count, device);
  each_thread(threads, memory, [&](int64_t index) {
    auto generator = thread_of(state, static_cast<uint64_t>(index));
    for (int64_t linear = index * vector; linear < count; linear += threads * vector)
      for (int64_t first = 0; first < vector; first += 4) {
        const auto kept = keep(generator.next());
        for (int64_t lane = 0; lane < std::min<int64_t>(4, vector); ++lane)
          memory.put(linear + first + lane, kept[static_cast<size_t>(lane)]);
      }
  });
}

// bernoulli_tensor_cuda_kernel by CUDA_tensor_apply2: as many blocks of 512 threads as it takes, on any
// device, four neighbours a thread; its generator is made anew for them.
constexpr uint64_t kBernoulliTensorReserves = 12;  // asks for 10, rounded up to whole blocks
template <class T>
void run_bernoulli_tensor(const Launch& launch, const RandomState& state, const Memory<T>& memory) {
  constexpr int64_t kThreads = 512, kStep = 4;
  const int64_t count = launch.count(), grid = ceil_divide(count, kThreads * kStep);
  each_thread(grid * kThreads, memory, [&](int64_t index) {
    for (int64_t linear = index * kStep; linear < count; linear += grid * kThreads * kStep) {
      auto generator = thread_of(state, static_cast<uint64_t>(index));
      const auto values = unit_values<float>(generator.next());
      for (int64_t lane = 0; lane < std::min(kStep, count - linear); ++lane)
        memory.put(launch.memory_of(linear + lane), static_cast<T>(values[static_cast<size_t>(lane)]));
    }
  });
}

// sampleMultinomialWithReplacement: a row of blocks for each distribution, as many rows as a grid may have;
// of each four uniform numbers the first is used.
inline int64_t multinomial_rows(int64_t distributions) {
  return std::min<int64_t>(distributions, 65535);
}
inline uint64_t multinomial_reserves(int64_t distributions) {
  return static_cast<uint64_t>((distributions - 1) / multinomial_rows(distributions) + 1) * 4;
}
template <class T>
void run_multinomial(int64_t distributions, int64_t samples, const RandomState& state,
                     const Memory<T>& memory) {
  constexpr int64_t kThreads = 128;
  const int64_t columns = ceil_divide(samples, kThreads), rows = multinomial_rows(distributions);
  each_thread(rows * columns * kThreads, memory, [&](int64_t index) {
    const int64_t row = index / (columns * kThreads), column = index % (columns * kThreads);
    auto generator = thread_of(state, static_cast<uint64_t>(index));
    for (int64_t distribution = row; distribution < distributions; distribution += rows)
      for (int64_t sample = column; sample < samples; sample += columns * kThreads)
        memory.put(distribution * samples + sample, static_cast<T>(unit_values<float>(generator.next())[0]));
  });
}

}  // namespace lockstep::oracle
