// SPDX-License-Identifier: Apache-2.0
// Route: the moves that turn one Spec into another, planned without ranks. Pure, printable, costed; execute()
// decides nothing. A route is at most: reductions of pending Partials, one move of elements, new Partials.
#pragma once
#include <string>
#include <vector>

#include "engine/layout/layout.h"
#include "engine/values/timeline.h"

namespace lockstep {

enum class StepKind {
  kAllReduce,      // Partial -> Replicate along one mesh dimension: all-gather, fold in rank order
  kReduceScatter,  // Partial -> Shard along one mesh dimension: all-to-all, fold in rank order
  kSlice,          // every rank keeps a part of what it holds; no communication
  kAllGather,      // Shard -> Replicate along one mesh dimension
  kAllToAll,       // Shard -> Shard of another dimension along one mesh dimension
  kExchange,       // any other move of elements: intersect what ranks hold with what they need
  kMakePartial,    // Replicate -> Partial: by sum and product coordinate 0 keeps the value and the
                   // others the identity; by avg, min and max every coordinate keeps the value
};

struct Step {
  StepKind kind;
  int64_t mesh_dim;  // -1: all of them
  SpecPtr from, to;
  int64_t bytes;  // received from other ranks, all ranks together
};

struct Route {
  SpecPtr from, to;
  std::vector<Step> steps;

  int64_t bytes() const;
  ReductionOrder order() const;
};

// @pre from and to differ in placements and order only. @post executing the steps gives `to`; no steps if
// equal. Throws Error naming the Specs if they differ in mesh, shape or dtype.
Route route(const SpecPtr& from, const SpecPtr& to);

// The step that carries the gradient back: slice <-> gather, all-to-all and exchange reversed, reductions ->
// none.
// @post the kinds of route(dual_placements) are the duals of the kinds, reversed.
StepKind dual(StepKind kind);
// The placement of the gradient of a tensor so placed: S -> S, I -> I, G -> G, R -> R, and P -> R, since the
// derivative of a sum by each of its terms is the derivative by the sum.
Placements dual(const Placements& placements);

// A box within a local tensor: for each tensor dimension, local indices. In a flat local they are those of a
// run of elements, seen as a dense tensor of `shape`.
struct Region {
  struct Run {
    int64_t start = 0;
    std::vector<int64_t> shape;
  };
  std::optional<Run> run;
  std::vector<IndexList> lists;
  std::vector<int64_t> shape() const;  // of the box
  int64_t numel() const;
};

// One rank's view of a move of elements: what it takes from `source` and where it puts it; boxes of one
// shape.
struct Transfer {
  int64_t source, target;  // mesh positions
  Region at_source, at_target;
};
// The transfers of one exchange that `target` receives: every element it needs exactly once, from itself if
// it can. By source, and those of one source in an order that both sides know.
std::vector<Transfer> transfers(const Spec& from, const Spec& to, int64_t target);

const char* name(StepKind kind);  // "all_reduce", …
std::string to_string(const Step& step);
std::string to_string(const Route& route);

}  // namespace lockstep
