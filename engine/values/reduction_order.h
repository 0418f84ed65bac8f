// SPDX-License-Identifier: Apache-2.0
// ReductionOrder: the tree by which terms become one value. A value with a text form; it computes nothing.
//   over 0: sum:f32(fold 0 1 2 3)                     rank order along mesh dimension 0
//   over 0.1: sum/4:f32(fold (fold 0 1) (fold 2 3))   along dimension 1, then 0; an average, divided once
//   over 0: sum:f32(fold sum:bf16(tree 0 0.m1) sum:bf16(tree 1 1.m1))   two microbatches of each rank first
//   over 0: [0:8]=sum:f32(ring 1 0); [8:]=sum:f32(ring 0 1)             slices start elsewhere
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "engine/values/spec.h"

namespace lockstep {

struct ReductionOrder {
  enum class Kind {
    kTerm,   // a leaf: what one rank has of one microbatch
    kFold,   // from the left: ((c0 + c1) + c2) + …
    kTree,   // neighbours in pairs, (c0 + c1), (c2 + c3), …, the last of an odd number as it is; so on with
             // the results until one is left
    kExact,  // the sum itself, divided and rounded once
    kRing,   // … c2 ∘ (c1 ∘ c0): what has come so far is the right operand of each hop, as Gloo reduces
  };
  // Children are cast to the node's dtype before and the result is of that dtype; an exact node takes them as
  // they are. max is the left operand if that is NaN or greater, else the right one; min likewise. In a ring
  // it is the right operand if that is greater, else the left one: a NaN on the right is lost. A result is
  // divided once, if at all: an average is a sum with a divisor.
  struct Node {
    Kind kind = Kind::kTerm;
    int64_t rank = 0, microbatch = 0;  // of a term
    ReduceOp op = ReduceOp::kSum;      // of the others, never kAvg
    c10::ScalarType dtype = c10::ScalarType::Float;
    int64_t divisor = 1;
    std::vector<Node> children;
    bool operator==(const Node&) const = default;
  };
  // The elements of the reduced tensor, counted row-major, from here to where the next slice begins.
  struct Slice {
    int64_t begin = 0;
    Node root;
    bool operator==(const Slice&) const = default;
  };

  // Ranks that differ only along these mesh dimensions (ascending) reduce together; a term's rank is their
  // row-major number.
  std::vector<int64_t> mesh_dims;
  std::vector<Slice> slices;  // none: nothing is reduced

  bool empty() const { return slices.empty(); }
  bool operator==(const ReductionOrder&) const = default;
};

// What pends along these mesh dimensions, folded in rank order along one after the other, in the Spec's
// dtype.
ReductionOrder fold_over(const Spec& spec, const std::vector<int64_t>& mesh_dims);

// Throws Error unless each slice takes every term of `ranks` x `microbatches` once, the slices begin at 0 and
// ascend within the tensor's elements, and each tree reduces by one op that its dtypes have.
void validate(const ReductionOrder& order, int64_t ranks, int64_t microbatches, int64_t elements);

//   order = "none" | ["over " dims joined by . ": "] (tree | slice {"; " slice})
//   slice = "[" begin ":" [end] "]=" tree
//   tree  = [op ["/" divisor] ":" dtype] "(" kind {" " child} ")"   without a head: as its parent
//   kind  = fold | tree | exact | ring
//   child = rank [".m" microbatch] | tree
std::string to_string(const ReductionOrder& order);
std::ostream& operator<<(std::ostream& out, const ReductionOrder& order);
// @post to_string(parse_reduction_order(text)) == text. Throws Error that quotes the text and the place.
ReductionOrder parse_reduction_order(std::string_view text);

}  // namespace lockstep
