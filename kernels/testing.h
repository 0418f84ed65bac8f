// SPDX-License-Identifier: Apache-2.0
// For tests: what a fill must write, element by element, from the scalar functors and the definition of a
// plan alone.
#pragma once
#include <cstring>
#include <map>

#include "kernels/philox_fill.h"

namespace lockstep {

struct BlockLane {
  PhiloxBlock block;
  int lane;
};

// Element j of the stream, as philox_sweep.h defines a plan.
inline BlockLane block_lane(const PhiloxSweep& plan, int64_t j, int lanes) {
  const PhiloxLaunch* launch = &plan.launches.front();
  for (const PhiloxLaunch& next : plan.launches)
    if (next.first <= j) launch = &next;
  const int64_t i = j - launch->first;
  int64_t thread = i % launch->threads, draw = i / launch->threads / lanes;
  int64_t lane = i / launch->threads % lanes;
  if (plan.width > 1) {
    const int64_t words = plan.width < 4 ? plan.width : 4, vector = i / plan.width;
    thread = vector % launch->threads;
    draw = plan.width / words * (vector / launch->threads) + i % plan.width / words;
    lane = i % words;
  }
  const BlockFunction block = plan.forged == nullptr ? philox : plan.forged;
  return {block(plan.seed, launch->subsequence + static_cast<uint64_t>(thread),
                launch->counter + static_cast<uint64_t>(draw)),
          static_cast<int>(lane)};
}

// Offset in local memory -> index in the stream.
inline std::map<int64_t, int64_t> elements_of(const StreamImage& image) {
  std::map<int64_t, int64_t> found;
  for (const StreamBox& box : image) {
    std::map<int64_t, int64_t> at{{box.offset, 0}};
    for (const StreamDim& dim : box.dims) {
      std::map<int64_t, int64_t> next;
      for (const auto& [offset, index] : at)
        for (const StreamPiece& piece : dim.pieces)
          for (int64_t i = 0; i < piece.length; ++i)
            next[offset + (piece.local + i) * dim.local_stride] = index + (piece.start + i) * dim.stride;
      at = next;
    }
    found.insert(at.begin(), at.end());
  }
  return found;
}

// Every combination of values and dtype that there is, with arguments that make it interesting.
inline std::vector<Distribution> every_distribution() {
  std::vector<Distribution> result;
  for (const Values values : {Values::kUniform, Values::kNormal, Values::kLogNormal, Values::kCauchy,
                              Values::kSlope, Values::kExponential, Values::kGeometric, Values::kBernoulli,
                              Values::kUniformWord, Values::kKeep, Values::kInteger, Values::kInteger64})
    for (const c10::ScalarType dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kHalf, c10::kLong,
                                        c10::kInt, c10::kShort, c10::kChar, c10::kByte, c10::kBool}) {
      Distribution d{values, dtype, 0.25, 0.75, -3, 1000};
      if (values == Values::kInteger64) d.high = int64_t{1} << 40;
      if (lanes_of(d) > 0) result.push_back(d);
    }
  return result;
}

// Every lane of a block.
template <class G>
std::vector<typename G::Value> all_lanes(const G& distribution, const PhiloxBlock& block) {
  std::vector<typename G::Value> values;
  for (int lane = 0; lane < G::kLanes; ++lane) values.push_back(distribution.value(block, lane));
  return values;
}

// The bytes of the value of a block's lane.
inline std::vector<unsigned char> value_bytes(const Distribution& distribution, const BlockLane& at) {
  std::vector<unsigned char> bytes;
  const auto read = [&](const auto& values) {
    const auto value = values.value(at.block, at.lane);
    bytes.resize(sizeof(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
  };
  with_values(distribution, read);
  return bytes;
}

inline std::vector<Simd> every_simd() {
  std::vector<Simd> result{Simd::kBaseline};
  for (const Simd simd : {Simd::kAvx2, Simd::kAvx512})
    if (simd <= best_simd()) result.push_back(simd);
  return result;
}

}  // namespace lockstep
