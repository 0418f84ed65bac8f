// SPDX-License-Identifier: Apache-2.0
// Cases of the suite `random`.
#pragma once
#include "generators/random/random_space.h"

namespace lockstep::generators {

// Random operators one after another, from one stream: the first is one of the point's, so that the cases of
// the covering array have every pair of the space; the others are drawn, for what each draws depends on where
// those before it left the stream. `others`: how many, at most.
oracle::Case random_point_case(Random random, const RandomPoint& point, int64_t others = 2);

// The index-th of the suite: twice around the covering array, then in turn a point of the array, points drawn
// freely, and programs of random ops with views and redistributions between them.
oracle::Case random_suite_case(Random random, uint64_t index);

}  // namespace lockstep::generators
