// SPDX-License-Identifier: Apache-2.0
// One op of a timeline on every rank's slices of its inputs, as its placements cut them.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "oracle/judge/judge_op.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::oracle {

class RankRuns {
 public:
  // On these terms of each input: one, or those that pend; none: undefined. @param mask of a dropout, what
  // the single device drew.
  RankRuns(const OpInQuestion& q, std::vector<Tensors> terms, at::Tensor mask);
  // The same op free of its dtypes: the floating terms are double already, and slices lie densely.
  static RankRuns in_float64(const OpInQuestion& q, std::vector<Tensors> terms, at::Tensor mask);

  // A tensor for each effect: what the rank at this position makes of its slices.
  Tensors run(int64_t position) const;
  // An earlier position with the same slices of everything; -1 if there is none.
  int64_t twin(int64_t position) const;
  // No result has an element there: nothing is to be run.
  bool makes_nothing(int64_t position) const;

  const Slicing& output(size_t effect) const { return *output_plans_.at(effect); }
  int64_t positions() const { return positions_; }

 private:
  // An earlier input that is the same tensor, or `i`.
  size_t same_input(size_t i) const;
  // Of the rank's part of an input in its memory; none: dense.
  std::optional<at::IntArrayRef> stride(size_t i, int64_t position) const;
  at::Tensor part(size_t i, int64_t position) const;
  // Asked once an op: of all its elements.
  bool flat_view() const;
  // Whether rows come from other ranks: then each has its part of the op on the whole.
  bool exchanges() const;

  const OpInQuestion& q_;
  std::vector<Tensors> terms_;
  at::Tensor mask_;
  bool float64_ = false;
  mutable std::optional<bool> flat_view_;
  int64_t positions_ = 0;
  std::vector<SpecPtr> input_specs_, output_specs_;
  std::vector<SlicingPtr> input_plans_, output_plans_;
};

}  // namespace lockstep::oracle
