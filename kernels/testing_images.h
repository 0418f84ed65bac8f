// SPDX-License-Identifier: Apache-2.0
// For property tests: images and plans drawn by RapidCheck. Boxes cut into pieces in any order, up to three
// launches, every vector width, threads from 1 to more than there are elements.
#pragma once
#include <rapidcheck.h>

#include <algorithm>
#include <sstream>

#include "kernels/testing.h"

namespace lockstep {

using rc::gen::inRange;

// Disjoint pieces of [0, size), in local memory in their order or the other way round.
inline StreamDim any_dim(int64_t size, int64_t stride, int64_t local_stride) {
  StreamDim dim{{}, stride, local_stride};
  int64_t local = 0;
  for (int64_t at = *inRange<int64_t>(0, size); at < size;) {
    const int64_t length = *inRange<int64_t>(1, size - at + 1);
    dim.pieces.push_back({at, length, local});
    local += length;
    at += length + *inRange<int64_t>(1, size + 1);
  }
  if (*inRange(0, 8) == 0)
    for (StreamPiece& piece : dim.pieces) piece.local = local - piece.local - piece.length;
  return dim;
}

struct Drawn {
  StreamImage image;
  int64_t numel = 1;   // of the stream
  int64_t memory = 1;  // of the local tensor
};

inline Drawn any_image() {
  Drawn result;
  StreamBox box{{}, *inRange<int64_t>(0, 5)};
  int64_t local_stride = *inRange<int64_t>(1, 3);
  const int ndim = *inRange(1, 4);
  for (int d = 0; d < ndim; ++d) {
    const int64_t size = *inRange<int64_t>(1, d == 0 ? *rc::gen::element<int64_t>(4, 40, 700) : 40);
    box.dims.push_back(any_dim(size, result.numel, local_stride));
    int64_t length = 0;
    for (const StreamPiece& piece : box.dims.back().pieces) length += piece.length;
    local_stride *= length;
    result.numel *= size;
  }
  result.memory = box.offset + local_stride + 8;
  result.image = {box};
  // The last dimension's pieces, each as a box of its own: a chain of boxes, or boxes in no order.
  if (*inRange(0, 3) != 0) return result;
  result.image.clear();
  for (const StreamPiece& piece : box.dims.back().pieces) {
    result.image.push_back(box);
    result.image.back().dims.back().pieces = {piece};
  }
  if (*inRange(0, 2) == 0) std::reverse(result.image.begin(), result.image.end());
  return result;
}

inline PhiloxSweep any_plan(int64_t numel) {
  PhiloxSweep plan{*rc::gen::arbitrary<uint64_t>(), {}, *rc::gen::element<int64_t>(1, 1, 1, 2, 4, 8)};
  for (int64_t first = 0; first < numel;) {
    PhiloxLaunch launch{first, numel - first, *rc::gen::element<int64_t>(1, 2, 7, 32, 256, 4096), 0, 0};
    if (plan.launches.size() < 2) launch.count = *inRange<int64_t>(1, launch.count + 1);
    launch.counter = *rc::gen::element<uint64_t>(0, 5, 0xfffffffe, 0xffffffff00000000);
    launch.counter += plan.launches.size() << 24;  // launches share no blocks
    launch.subsequence = *rc::gen::element<uint64_t>(0, 1000, 0xffffffff);
    first += launch.count;
    plan.launches.push_back(launch);
  }
  return plan;
}

inline void log(const Drawn& drawn, const PhiloxSweep& plan) {
  std::ostringstream out;
  for (const StreamBox& box : drawn.image) {
    out << "box at " << box.offset << "\n";
    for (const StreamDim& dim : box.dims) {
      out << "  stride " << dim.stride << ", local " << dim.local_stride << ":";
      for (const StreamPiece& p : dim.pieces) out << " " << p.start << "+" << p.length << "->" << p.local;
      out << "\n";
    }
  }
  for (const PhiloxLaunch& l : plan.launches)
    out << "launch " << l.first << "+" << l.count << " of " << l.threads << " threads, counter " << l.counter
        << ", subsequence " << l.subsequence << "\n";
  out << "width " << plan.width << "\n";
  RC_LOG(out.str());
}

// The words themselves, so that nothing can hide behind rounding.
inline Distribution any_words(bool two) {
  return {two ? Values::kInteger64 : Values::kInteger, c10::kLong, 0, 0, 0, 0};
}

}  // namespace lockstep
