// SPDX-License-Identifier: Apache-2.0
// From a batch of blocks to values in memory: lane by lane over arrays, which compilers turn into vector
// instructions, then each segment to its place.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>

#include "kernels/philox_sweep.h"

namespace lockstep::detail {

// Consecutive blocks of a batch, of which the same lanes are wanted.
struct Stretch {
  int64_t begin, end;
  uint32_t lanes;
};

// out[i] is lane `Lane` of block begin + i.
template <int Lane, class G>
void lane_values(const G& distribution, const PhiloxWords& words, const Stretch& s, typename G::Value* out) {
  for (int64_t i = s.begin; i < s.end; ++i) out[i - s.begin] = distribution.value(words.block(i), Lane);
}

// Two lanes that may share work: what both need is computed once.
template <int First, class G>
void pair_values(const G& distribution, const PhiloxWords& words, const Stretch& s, typename G::Value* out0,
                 typename G::Value* out1) {
  for (int64_t i = s.begin; i < s.end; ++i) {
    const PhiloxBlock block = words.block(i);
    out0[i - s.begin] = distribution.value(block, First);
    out1[i - s.begin] = distribution.value(block, First + 1);
  }
}

// The lanes First and First + 1 that are wanted.
template <int First, class G>
void wanted_values(const G& distribution, const PhiloxWords& words, const Stretch& s,
                   typename G::Value* const* out) {
  const uint32_t wanted = s.lanes >> First & 3;
  if (wanted == 1) lane_values<First>(distribution, words, s, out[First]);
  if (wanted == 2) lane_values<First + 1>(distribution, words, s, out[First + 1]);
  if (wanted == 3) pair_values<First>(distribution, words, s, out[First], out[First + 1]);
}

template <class G>
class PhiloxWriter {
 public:
  using T = typename G::Value;
  PhiloxWriter(const G& distribution, const PhiloxSweep& plan, T* out, Simd simd)
      : distribution_(distribution), plan_(plan), out_(out), simd_(simd) {}

  void operator()(PhiloxBatch& batch) {
    if (plan_.forged == nullptr)
      generate(plan_.seed, batch.words, batch.count, simd_);
    else
      generate_by(plan_.forged, plan_.seed, batch.words, batch.count);
    if (batch.segments.empty()) {
      T* const lane[4] = {values_[0], values_[1], values_[2], values_[3]};
      compute(batch.words, {0, batch.count, (1u << batch.block_words) - 1}, lane);
      for (const VectorSegment& segment : batch.vectors) scatter(segment, batch);
      return;
    }
    // Shorter stretches are joined, though some lanes are then computed for nothing.
    constexpr int kShort = 16;
    for (size_t i = 0; i < batch.segments.size();) {
      const LaneSegment& first = batch.segments[i];
      Stretch stretch{first.block, first.block, 0};
      const size_t begin = i;
      for (; i < batch.segments.size(); ++i) {
        const LaneSegment& next = batch.segments[i];
        if (stretch.end - stretch.begin >= kShort && next.lanes != stretch.lanes) break;
        stretch.lanes |= next.lanes;
        stretch.end += next.width * next.rows;
      }
      write({batch.segments.data() + begin, i - begin}, stretch, batch);
    }
  }

 private:
  void compute(const PhiloxWords& words, const Stretch& stretch, T* const* lane) {
    with_simd(simd_, [&] { compute_here(words, stretch, lane); });
  }
  void compute_here(const PhiloxWords& words, const Stretch& stretch, T* const* lane) {
    wanted_values<0>(distribution_, words, stretch, lane);
    if constexpr (G::kLanes == 4) wanted_values<2>(distribution_, words, stretch, lane);
  }

  void write(std::span<const LaneSegment> segments, const Stretch& stretch, const PhiloxBatch& batch) {
    constexpr int kLong = 32;  // rows that are contiguous in memory and this long are computed in place
    if (segments.size() == 1 && segments[0].width >= kLong && batch.stride == 1) {
      write_rows(segments[0], batch.words);
      return;
    }
    T* lane[4];
    for (int l = 0; l < 4; ++l) lane[l] = values_[l] + stretch.begin;
    compute(batch.words, stretch, lane);
    for (const LaneSegment& segment : segments) scatter(segment, batch.stride);
  }

  void write_rows(const LaneSegment& segment, const PhiloxWords& words) {
    T* lane[4];
    for (int l = 0; l < 4; ++l) lane[l] = out_ + segment.offset[l];
    with_simd(simd_, [&] {
      for (int64_t row = 0; row < segment.rows; ++row) {
        const int64_t begin = segment.block + row * segment.width;
        compute_here(words, {begin, begin + segment.width, segment.lanes}, lane);
        for (T*& to : lane) to += segment.row_stride;
      }
    });
  }

  void scatter(const LaneSegment& segment, int64_t stride) const {
    for (uint32_t lanes = segment.lanes; lanes != 0; lanes &= lanes - 1) {
      const int l = std::countr_zero(lanes);
      const T* from = values_[l] + segment.block;
      T* to = out_ + segment.offset[l];
      if (segment.width == 1) {
        for (int32_t row = 0; row < segment.rows; ++row) to[row * segment.row_stride] = from[row];
        continue;
      }
      for (int32_t row = 0; row < segment.rows; ++row, to += segment.row_stride, from += segment.width) {
        if (stride == 1)
          copy(from, segment.width, to);
        else
          for (int32_t i = 0; i < segment.width; ++i) to[i * stride] = from[i];
      }
    }
  }

  // A call of memcpy costs more than a short row.
  static void copy(const T* from, int64_t count, T* to) {
    constexpr int64_t kLine = 64 / sizeof(T), kChunk = kLine / 4, kLong = 8 * kLine;
    if (count >= kLong) {
      std::copy_n(from, count, to);
      return;
    }
    int64_t i = 0;
    for (; i + kLine <= count; i += kLine) std::memcpy(to + i, from + i, sizeof(T) * kLine);
    for (; i + kChunk <= count; i += kChunk) std::memcpy(to + i, from + i, sizeof(T) * kChunk);
    for (; i < count; ++i) to[i] = from[i];
  }

  void scatter(const VectorSegment& segment, const PhiloxBatch& batch) const {
    T* to = out_ + segment.offset;
    int64_t block = segment.word / batch.block_words, lane = segment.word % batch.block_words;
    for (int64_t i = 0; i < segment.count; ++i) {
      to[i * batch.stride] = values_[lane][block];
      if (++lane == batch.block_words) lane = 0, ++block;
    }
  }

  const G& distribution_;
  const PhiloxSweep& plan_;
  T* const out_;
  const Simd simd_;
  T values_[4][kPhiloxBatch];
};

template <class G>
void fill_with(const G& distribution, const PhiloxSweep& plan, const StreamImage& image, void* out,
               Simd simd) {
  PhiloxWriter<G> write(distribution, plan, static_cast<typename G::Value*>(out), simd);
  sweep(plan, image, G::kLanes, std::ref(write));
}

}  // namespace lockstep::detail
