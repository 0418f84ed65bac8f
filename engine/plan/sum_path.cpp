// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sum_path.h"

#include <array>

#include "engine/values/error.h"

namespace lockstep {
namespace {

using Kind = ReductionOrder::Kind;
using Node = ReductionOrder::Node;
using First = SumPath::First;

constexpr std::array kKinds = {Kind::kFold, Kind::kTree, Kind::kExact};  // by SumOrder

bool holds(c10::ScalarType wide, c10::ScalarType narrow) {
  return c10::promoteTypes(wide, narrow) == wide;
}

Node term_of(int64_t rank, int64_t pass) {
  Node term;
  term.rank = rank;
  term.microbatch = pass;
  return term;
}

// Of children by number.
template <class Child>
Node sum_of(Kind kind, c10::ScalarType dtype, int64_t count, const Child& child) {
  Node sum;
  sum.kind = kind;
  sum.dtype = dtype;
  for (int64_t i = 0; i < count; ++i) sum.children.push_back(child(i));
  return sum;
}

}  // namespace

SumPath path_of(SumOrder order, const std::vector<SumHop>& hops, c10::ScalarType gradient) {
  SumPath path{First::kTogether, order, gradient, gradient, gradient};
  if (hops.empty()) {
    if (order == SumOrder::kExact) path.first = First::kAll;
    return path;
  }
  LOCKSTEP_CHECK(hops.size() == 2 && hops[0].over != hops[1].over,
                 "[buckets] terms are added up over passes ", "once, and over ranks once, and not in ",
                 hops.size(), " sums; give one of each, or none");
  path.first = hops.front().over == SumHop::Over::kPasses ? First::kPasses : First::kRanks;
  for (const auto& hop : hops) {
    const auto dtype = hop.dtype.value_or(gradient);
    LOCKSTEP_CHECK(holds(dtype, gradient), "[buckets] gradients of ", dtype_name(gradient),
                   " are added up in ", dtype_name(dtype),
                   ", which does not hold every one of their numbers; take a wider dtype");
    (hop.over == SumHop::Over::kPasses ? path.in_passes : path.in_ranks) = dtype;
  }
  LOCKSTEP_CHECK(
      order != SumOrder::kExact || path.first != First::kPasses || holds(path.in_ranks, path.in_passes),
      "[buckets] an exact sum over ranks in ", dtype_name(path.in_ranks), " of sums in ",
      dtype_name(path.in_passes), " would round twice; make it in the wider dtype");
  return path;
}

ReductionOrder order_of(const SumPath& path, std::vector<int64_t> mesh_dims, int64_t ranks, int64_t passes) {
  const auto kind = kKinds[static_cast<size_t>(path.order)];
  const auto over_ranks = [&](const auto& child) { return sum_of(kind, path.in_ranks, ranks, child); };
  const auto over_passes = [&](const auto& child) {
    return sum_of(Kind::kFold, path.in_passes, passes, child);
  };
  Node root;
  switch (path.first) {
    case First::kTogether:
      root = over_ranks([](int64_t rank) { return term_of(rank, 0); });
      break;
    case First::kPasses:
      root = over_ranks(
          [&](int64_t rank) { return over_passes([&](int64_t pass) { return term_of(rank, pass); }); });
      break;
    case First::kRanks:
      root = over_passes(
          [&](int64_t pass) { return over_ranks([&](int64_t rank) { return term_of(rank, pass); }); });
      break;
    case First::kAll:
      root = sum_of(kind, path.in_ranks, ranks * passes,
                    [&](int64_t i) { return term_of(i % ranks, i / ranks); });
      break;
  }
  return {std::move(mesh_dims), {{0, std::move(root)}}};
}

}  // namespace lockstep
