// SPDX-License-Identifier: Apache-2.0
// Route: the moves that turn one Spec into another, planned without ranks. Pure, printable, costed; execute()
// decides nothing. A route is at most: reductions of pending Partials, one move of elements, new Partials. To
// another mesh, of any ranks, it is the move that goes there: before it Partials are reduced in the one,
// after it made in the other.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/layout/layout.h"
#include "engine/values/timeline.h"

namespace lockstep {

enum class StepKind {
  kAllReduce,      // Partial -> Replicate along one mesh dimension: all-gather, fold in rank order
  kReduceScatter,  // Partial -> Shard or RaggedShard along one mesh dimension: all-to-all, fold in rank order
  kSlice,          // every rank keeps a part of what it holds; no communication
  kAllGather,      // Shard -> Replicate along one mesh dimension
  kAllToAll,       // Shard -> Shard of another dimension along one mesh dimension
  kExchange,       // any other move of elements, to another mesh, too: intersect what ranks hold with what
                   // they need
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
  // In which its steps reduce: folds in rank order, or the library's own order where that has one.
  ReductionOrder order(bool by_library = false) const;
};

// @pre from and to differ in placements, order and mesh only. @post executing the steps gives `to`; no steps
// if equal. Throws Error naming the Specs if they differ in shape or dtype.
Route route(const SpecPtr& from, const SpecPtr& to);

// No mesh dimension applied after `mesh_dim` cuts the same tensor dimension, so that its pieces are whole
// locals. @pre it is a shard along `mesh_dim`
bool is_innermost(const Spec& spec, int64_t mesh_dim);
// The order of mesh dimensions with `mesh_dim` applied last.
std::vector<int64_t> innermost(const std::vector<int64_t>& order, int64_t mesh_dim);

// The placement of the gradient of a tensor so placed: S -> S, I -> I, G -> G, R -> R, and P -> R, since the
// derivative of a sum by each of its terms is the derivative by the sum.
Placements dual(const Placements& placements);

// A box within a local tensor: for each tensor dimension, local indices. In a flat local they are those of a
// run of elements, seen as a dense tensor of `shape`.
struct Region {
  struct Run {
    int64_t start;
    std::vector<int64_t> shape;
  };
  std::optional<Run> run;
  std::vector<IndexList> lists;
  int64_t numel() const;
};

// Elements that move from one rank to another: boxes of one shape, whose lists have intervals of the same
// lengths.
struct Transfer {
  Region at_source, at_target;
};

// What a rank holds, and that in pieces.
struct Holding {
  Owned owned;
  std::vector<Piece> pieces;
};

// What a position holds under both Specs: from where in its local tensor to where in the other.
std::vector<Transfer> kept_at(const Spec& from, const Spec& to, int64_t position);

// The moves of elements from one Spec to another, from each position of the one's mesh to each of the
// other's. Keeps what it has computed.
class Moves {
 public:
  Moves(const Spec& from, const Spec& to);

  // Whom a position receives from, ascending: along mesh dimensions that replicate or hold terms those that
  // stand where its rank stands. One that is not in the mesh of `from` counts as if it stood where its number
  // in that of `to` does, from the start again beyond the end.
  std::vector<int64_t> sources(int64_t target) const;
  // Whom a position sends to, ascending. Law: target is among targets(source) where source is among
  // sources(target), and only there.
  std::vector<int64_t> targets(int64_t source) const;
  // What `target` takes from `source`. Law: from all its sources it takes every element it needs exactly
  // once.
  const std::vector<Transfer>& between(int64_t source, int64_t target);

 private:
  static const Holding& held(std::map<int64_t, Holding>& known, const Spec& spec, int64_t position);
  std::vector<int64_t> alike(int64_t position) const;

  const Spec& from_;
  const Spec& to_;
  std::vector<int64_t> stand_;                  // of a target, in the mesh of `from`
  std::vector<std::vector<int64_t>> standing_;  // the targets that stand at a source
  std::map<int64_t, Holding> sources_, targets_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Transfer>> between_;
};

const char* name(StepKind kind);  // "all_reduce", …
std::string to_string(const Step& step);
std::string to_string(const Route& route);

}  // namespace lockstep
