// SPDX-License-Identifier: Apache-2.0
// Faults of declared orders: Gloo reduces, and another order is named than its own. What ranks hold is right,
// but for rounding; that the order is named wrong is seen by its replay alone.
#include <algorithm>

#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using Node = ReductionOrder::Node;

// Of two ranks either order has the same bits.
bool three_ranks_pending(const oracle::Case& c) {
  const auto& shape = c.mesh.shape();
  const bool three = std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n > 2; });
  return three && !c.integer_lane && pending_on_ranks(many_ranks)(c);
}

template <class F>
void each_ring(Node& node, const F& f) {
  for (auto& child : node.children) each_ring(child, f);
  if (node.kind == ReductionOrder::Kind::kRing) f(node);
}

template <class F>
void each_ring(ReductionOrder& order, const F& f) {
  for (auto& slice : order.slices) each_ring(slice.root, f);
}

int64_t first_rank(const Node& node) {
  return node.children.empty() ? node.rank : first_rank(node.children.front());
}

void called_rank_order(ReductionOrder& order) {
  each_ring(order, [](Node& ring) {
    ring.kind = ReductionOrder::Kind::kFold;
    std::sort(ring.children.begin(), ring.children.end(),
              [](const Node& a, const Node& b) { return first_rank(a) < first_rank(b); });
  });
}

void up_the_ring(ReductionOrder& order) {
  each_ring(order, [](Node& ring) { std::reverse(ring.children.begin() + 1, ring.children.end()); });
}

void chunk_early(ReductionOrder& order) {
  for (size_t i = 1; i < order.slices.size(); ++i)
    if (order.slices[i].begin > order.slices[i - 1].begin + 1) --order.slices[i].begin;
}

}  // namespace

std::vector<Fault> order_faults() {
  return {
      {98, "ring-called-rank-order", "K1", "what Gloo's ring reduces is declared in rank order",
       "redistribute", 300, 1, three_ranks_pending, with_library_order(called_rank_order)},
      {99, "ring-upwards", "K1", "the ring is declared to go up the ranks, and goes down", "redistribute",
       300, 1, three_ranks_pending, with_library_order(up_the_ring)},
      {100, "chunk-early", "K1", "each chunk of the ring is declared to begin one element early",
       "redistribute", 500, 1, three_ranks_pending, with_library_order(chunk_early)},
  };
}

}  // namespace lockstep::suites::plant
