// SPDX-License-Identifier: Apache-2.0
// Fills a run of consecutive elements of one kernel launch, whatever part of it the run is: element ->
// (thread, block, lane) in closed form. Two launches exist: grid-stride (all TensorIterator distributions)
// and vectorised (dropout).
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/philox_values.h"

namespace lockstep {

// One kernel launch. Thread t's blocks are philox(seed, subsequence + t, counter), then counter + 1, …
struct PhiloxLaunch {
  uint64_t seed = 0;
  uint64_t counter = 0;  // generator offset / 4
  int64_t threads = 256;
  uint64_t subsequence = 0;  // of thread 0
  PhiloxBlock block(int64_t thread, int64_t draw) const {
    return philox(seed, subsequence + static_cast<uint64_t>(thread), counter + static_cast<uint64_t>(draw));
  }
};

// Elements [first, last) of a launch, written `stride` apart. @pre 0 <= first < last
template <class T>
struct PhiloxRun {
  int64_t first = 0, last = 0;
  T* out = nullptr;
  int64_t stride = 1;
};

namespace detail {

// One block for each element: right where fewer than `threads` elements are wanted, since then a block has
// one of them.
template <class G>
void fill_elements(const PhiloxLaunch& launch, const G& distribution,
                   const PhiloxRun<typename G::Value>& run) {
  int64_t row = run.first / launch.threads, thread = run.first % launch.threads;
  for (int64_t j = run.first; j < run.last; ++j) {
    const PhiloxBlock block = launch.block(thread, row / G::kLanes);
    run.out[(j - run.first) * run.stride] = distribution.value(block, static_cast<int>(row % G::kLanes));
    if (++thread == launch.threads) {
      thread = 0;
      ++row;
    }
  }
}

// Each block once, all its lanes that lie in the run. @pre the run lies within draw `draw` of every thread
template <class G>
void fill_blocks(const PhiloxLaunch& launch, int64_t draw, const G& distribution,
                 const PhiloxRun<typename G::Value>& run) {
  const int64_t base = draw * G::kLanes * launch.threads;
  for (int64_t thread = 0; thread < launch.threads; ++thread) {
    const auto values = all_lanes(distribution, launch.block(thread, draw));
    for (int64_t lane = 0; lane < G::kLanes; ++lane) {
      const int64_t j = base + lane * launch.threads + thread;
      if (run.first <= j && j < run.last)
        run.out[(j - run.first) * run.stride] = values[static_cast<size_t>(lane)];
    }
  }
}

}  // namespace detail

// Grid-stride launch: element j = thread + threads * (kLanes * draw + lane).
template <class G>
void fill_grid_stride(const PhiloxLaunch& launch, const G& distribution,
                      const PhiloxRun<typename G::Value>& run) {
  const int64_t per_draw = G::kLanes * launch.threads;
  for (int64_t draw = run.first / per_draw; draw * per_draw < run.last; ++draw) {
    PhiloxRun<typename G::Value> part = run;
    part.first = std::max(run.first, draw * per_draw);
    part.last = std::min(run.last, (draw + 1) * per_draw);
    part.out = run.out + (part.first - run.first) * run.stride;
    if (part.last - part.first < launch.threads)
      detail::fill_elements(launch, distribution, part);
    else
      detail::fill_blocks(launch, draw, distribution, part);
  }
}

// Vectorised launch: a thread takes `width` (2, 4 or 8) consecutive elements at a time, and for them one
// block (two where the width is 8); a width of 2 leaves words 2 and 3 unused.
template <class G>
void fill_vectorised(const PhiloxLaunch& launch, int64_t width, const G& distribution,
                     const PhiloxRun<typename G::Value>& run) {
  const int64_t words = std::min<int64_t>(width, 4), blocks = width / words;
  for (int64_t group = run.first / words; group * words < run.last; ++group) {
    const int64_t vector = group / blocks;
    const int64_t draw = blocks * (vector / launch.threads) + group % blocks;
    const PhiloxBlock block = launch.block(vector % launch.threads, draw);
    const int64_t end = std::min(run.last, (group + 1) * words);
    for (int64_t j = std::max(run.first, group * words); j < end; ++j)
      run.out[(j - run.first) * run.stride] = distribution.value(block, static_cast<int>(j - group * words));
  }
}

}  // namespace lockstep
