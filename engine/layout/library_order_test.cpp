// SPDX-License-Identifier: Apache-2.0
// Orders of routes that a library reduces. That Gloo's own order is this one is in world/library_test.cpp.
#include "engine/layout/library_order.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string order_of(const std::string& mesh, const std::string& from, const std::string& to,
                     std::vector<int64_t> shape, c10::ScalarType dtype = c10::kFloat) {
  const auto spec = [&](const std::string& placements) {
    return std::make_shared<const Spec>(parse_mesh(mesh), parse_placements(placements), shape,
                                        contiguous_strides(shape), dtype);
  };
  return to_string(route(spec(from), spec(to)).order(true));
}

// Catches: chunks that the world divides evenly, one order for all, a ring that goes up.
TEST(LibraryOrder, EachChunkStartsAtAnotherRank) {
  EXPECT_EQ(order_of("3", "[P]", "[R]", {8}), "over 0: [0:4]=sum:f32(ring 2 1 0); [4:]=sum:f32(ring 0 2 1)");
  EXPECT_EQ(order_of("3", "[Pavg]", "[R]", {10}),
            "over 0: [0:4]=sum/3:f32(ring 2 1 0); [4:8]=sum/3:f32(ring 0 2 1); [8:]=sum/3:f32(ring 1 0 2)");
  EXPECT_EQ(order_of("3", "[Pmax]", "[R]", {1}), "over 0: max:f32(ring 2 1 0)");
}

// Catches: the position in the global tensor taken for that in the local one.
TEST(LibraryOrder, ThePositionIsTheLocals) {
  EXPECT_EQ(order_of("2x2", "[P,S1]", "[R,S1]", {2, 4}),
            "over 0: [0:4]=sum:f32(ring 1 0); [4:]=sum:f32(ring 0 1)");
  EXPECT_EQ(order_of("2x2", "[P,S0]", "[R,S0]", {4, 2}),
            "over 0: [0:2]=sum:f32(ring 1 0); [2:4]=sum:f32(ring 0 1); [4:6]=sum:f32(ring 1 0); "
            "[6:]=sum:f32(ring 0 1)");
}

// Catches: a reduce-scatter whose pieces are not of one size, or that lie in the buffer as in the tensor.
TEST(LibraryOrder, AReduceScatterPadsItsPieces) {
  // Three pieces of two: 0 1 | 2 3 | 4 and nothing.
  EXPECT_EQ(order_of("3", "[P]", "[S0]", {5}),
            "over 0: [0:2]=sum:f32(ring 2 1 0); [2:4]=sum:f32(ring 0 2 1); [4:]=sum:f32(ring 1 0 2)");
  // Two pieces of two columns: in the buffer the first columns of all rows come first.
  EXPECT_EQ(order_of("2", "[P]", "[S1]", {2, 3}),
            "over 0: [0:2]=sum:f32(ring 1 0); [2:3]=sum:f32(ring 0 1); [3:5]=sum:f32(ring 1 0); "
            "[5:]=sum:f32(ring 0 1)");
}

// Catches: dimensions that reduce in another order than the steps, one chunk for both.
TEST(LibraryOrder, SeveralDimensionsAreARingOfRings) {
  EXPECT_EQ(order_of("2x2", "[P,P]", "[R,R]", {4}),
            "over 0.1: [0:2]=sum:f32(ring (ring 3 1) (ring 2 0)); [2:]=sum:f32(ring (ring 0 2) (ring 1 3))");
}

// The second of two reductions is of runs that ranks hold of the blocks. Catches: places in the tensor taken
// for those in such a run, and runs that the library is said to reduce and does not.
TEST(LibraryOrder, ARunIsReducedByItsOwnPlaces) {
  EXPECT_EQ(order_of("2x2", "[P,P]", "[R,G0:1/1]", {16}),
            "over 0.1: [0:4]=sum:f32(ring (ring 3 2) (ring 1 0)); [4:8]=sum:f32(ring (ring 1 0) (ring 3 2)); "
            "[8:12]=sum:f32(ring (ring 2 3) (ring 0 1)); [12:]=sum:f32(ring (ring 0 1) (ring 2 3))");
  EXPECT_EQ(order_of("2x2", "[P,G0:1/1]", "[R,G0:1/1]", {16}),
            "over 0: [0:4]=sum:f32(ring 1 0); [4:8]=sum:f32(ring 0 1); [8:12]=sum:f32(ring 1 0); "
            "[12:]=sum:f32(ring 0 1)");
}

// Catches: an order of Gloo's declared for what it does not reduce.
TEST(LibraryOrder, WhatGlooHasNotIsFolded) {
  EXPECT_EQ(order_of("3", "[Pmax]", "[R]", {8}, c10::kShort), "over 0: max:i16(fold 0 1 2)");
  EXPECT_EQ(order_of("3", "[S0]", "[R]", {8}), "none");
}

}  // namespace
}  // namespace lockstep
