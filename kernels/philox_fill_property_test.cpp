// SPDX-License-Identifier: Apache-2.0
// The laws of philox_fill.h on drawn images and plans: boxes cut into pieces in any order, up to three
// launches, every vector width, threads from 1 to more than there are elements.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "kernels/testing.h"

namespace lockstep {
namespace {

using rc::gen::inRange;

// Disjoint pieces of [0, size), in local memory in their order or the other way round.
StreamDim any_dim(int64_t size, int64_t stride, int64_t local_stride) {
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

Drawn any_image() {
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

PhiloxPlan any_plan(int64_t numel) {
  PhiloxPlan plan{*rc::gen::arbitrary<uint64_t>(), {}, *rc::gen::element<int64_t>(1, 1, 1, 2, 4, 8)};
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

void log(const Drawn& drawn, const PhiloxPlan& plan) {
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
Distribution words(bool two) {
  return {two ? Values::kInteger64 : Values::kInteger, c10::kLong, 0, 0, 0, 0};
}

// Catches: a lane, draw or thread miscounted at any end; a piece or a launch left out; writes beside the
// image; blocks that several runs share given to the wrong one.
TEST(PhiloxFillProperty, EachElementIsWrittenOnceWithItsWords) {
  EXPECT_TRUE(rc::check("words", [] {
    const Drawn drawn = any_image();
    const PhiloxPlan plan = any_plan(drawn.numel);
    log(drawn, plan);
    const bool two = plan.width == 1 && *rc::gen::arbitrary<bool>();
    const int64_t poison = 0x7171717171717171;
    std::vector<int64_t> out(static_cast<size_t>(drawn.memory), poison), expected = out;
    for (const auto& [offset, j] : elements_of(drawn.image)) {
      const auto bytes = value_bytes(words(two), block_lane(plan, j, two ? 2 : 4));
      std::memcpy(&expected[static_cast<size_t>(offset)], bytes.data(), bytes.size());
    }
    for (const Simd simd : every_simd()) {
      std::fill(out.begin(), out.end(), poison);
      RC_ASSERT(fill(words(two), plan, drawn.image, out.data(), simd));
      RC_ASSERT(out == expected);
    }
  }));
}

// Catches: blocks counted once for each lane, or left out, in any way that a sweep takes.
TEST(PhiloxFillProperty, DistinctBlocksAreCounted) {
  EXPECT_TRUE(rc::check("blocks", [] {
    Drawn drawn = any_image();
    drawn.image.resize(std::min<size_t>(drawn.image.size(), 1));
    const PhiloxPlan plan = any_plan(drawn.numel);
    log(drawn, plan);
    std::set<PhiloxBlock> blocks;
    for (const auto& [offset, j] : elements_of(drawn.image)) blocks.insert(block_lane(plan, j, 4).block);
    const auto counted = static_cast<size_t>(distinct_blocks(plan, drawn.image, 4));
    if (plan.width == 1 && std::none_of(plan.launches.begin(), plan.launches.end(),
                                        [](const PhiloxLaunch& l) { return l.threads == 1; }))
      RC_ASSERT(counted == blocks.size());
    else  // a vector that runs in different rows share may occur for each of them
      RC_ASSERT(counted >= blocks.size());
  }));
}

}  // namespace
}  // namespace lockstep
