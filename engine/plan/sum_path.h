// SPDX-License-Identifier: Apache-2.0
// The path from the terms of a gradient, of each pass and of each rank, to their sum: what a row of a plan
// says of it, for gradients of one dtype.
#pragma once
#include <vector>

#include "engine/plan/plan.h"
#include "engine/values/reduction_order.h"

namespace lockstep {

struct SumPath {
  enum class First {
    kTogether,  // terms come added up over passes; nothing is known of these
    kPasses,    // each rank adds up its passes, then ranks are
    kRanks,     // each pass is added up over ranks, then passes are
    kAll        // one exact sum of all
  };
  First first = First::kTogether;
  SumOrder order = SumOrder::kFold;  // over ranks
  c10::ScalarType gradient = c10::ScalarType::Float, in_passes = gradient, in_ranks = gradient;

  bool tells_passes() const { return first != First::kTogether; }
  // Whether the terms of a pass go to other ranks when it ends, and not when the last one does.
  bool sends_each_pass() const { return first == First::kRanks || first == First::kAll; }
};

// Throws Error for other hops than one over each, or none; for a sum in a dtype that does not hold every
// number of the gradient, and for an exact one in a dtype that does not hold what it adds up: that is rounded
// twice.
SumPath path_of(SumOrder order, const std::vector<SumHop>& hops, c10::ScalarType gradient);

// Of ranks that differ along these mesh dimensions (ascending). Law: each term of each pass is in it once.
ReductionOrder order_of(const SumPath& path, std::vector<int64_t> mesh_dims, int64_t ranks, int64_t passes);

}  // namespace lockstep
