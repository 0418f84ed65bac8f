// SPDX-License-Identifier: Apache-2.0
// The slices of a value that a Spec gives to each rank, planned once a Spec, cut and digested without running
// ops.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "engine/values/timeline.h"
#include "oracle/ownership/ownership.h"

namespace lockstep::oracle {

// A value placed with Partial is several tensors of its shape, its terms: one for each combination of
// coordinates along the Partial mesh dimensions, row-major. Any other value is one term. Every rank holds a
// slice of one term.
struct Slicing {
  std::vector<int64_t> partial_dims;  // mesh dimensions, ascending
  std::vector<ReduceOp> ops;          // for each of them
  std::vector<int64_t> sizes;         // of these mesh dimensions
  int64_t terms = 1;
  std::vector<int64_t> term;   // of each position
  std::vector<int64_t> first;  // of each position: the first that holds the same slice of the same term
  std::vector<Share> shares;   // of each position: what it holds of its term
  std::vector<std::vector<int64_t>> shapes;  // of each position
};
using SlicingPtr = std::shared_ptr<const Slicing>;
SlicingPtr slicing_of(const Spec& spec);  // cached in the thread

// The slice of `term` that the position holds: fresh, dense, dimensions in the order of the term's strides;
// flat under RaggedShard.
at::Tensor cut(const at::Tensor& term, const Slicing& plan, int64_t position);
// The same slice in memory of these strides, gaps and overlaps included.
at::Tensor cut(const at::Tensor& term, const Slicing& plan, int64_t position, at::IntArrayRef stride);
// Elements of an expanded dimension are one.
void write(at::Tensor target, at::Tensor values);
// The inverse: writes a slice to where it stands in `term`.
void paste(const at::Tensor& local, const Slicing& plan, int64_t position, const at::Tensor& term);
Digest digest_of_slice(const at::Tensor& term, const Slicing& plan, int64_t position);

// The first position whose digest is not that of its slice of its term; -1 if all are.
int64_t first_mismatch(const std::vector<at::Tensor>& terms, const TensorRecord& record);

}  // namespace lockstep::oracle
