// SPDX-License-Identifier: Apache-2.0
// Terms reduced in a declared order: the oracle's own arithmetic for it, by plain operators.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/values/reduction_order.h"

namespace lockstep::oracle {

// Terms folded from the left in `dtype`: (t0 + t1) + t2 …; avg divides the root once by their number.
at::Tensor fold(const std::vector<at::Tensor>& terms, ReduceOp op, c10::ScalarType dtype);

// Terms for each combination of coordinates along dimensions of these sizes, row-major, folded in their dtype
// in the default order: along the first dimension first, ranks ascending.
at::Tensor fold_terms(std::vector<at::Tensor> terms, const std::vector<ReduceOp>& ops,
                      const std::vector<int64_t>& sizes);

// The term of a rank of the group and a microbatch.
using TermOf = std::function<at::Tensor(int64_t rank, int64_t microbatch)>;
// Each element by the tree of its slice, cast to `dtype`. @param slice_of for each element the number of the
// first slice with its tree, as slice_numbers has it, or the part of that which stands where the terms'
// elements stand.
// @pre the order is valid.
at::Tensor reduce(const ReductionOrder& order, const TermOf& term, const at::Tensor& slice_of,
                  c10::ScalarType dtype);
// Undefined where all elements are of one slice.
at::Tensor slice_numbers(const ReductionOrder& order, at::IntArrayRef shape);

// x op identity has the bits of x, for every x; of an average: as of a sum.
at::Scalar identity(ReduceOp op, c10::ScalarType dtype);

// The row-major places of a grid that differ only along `dims`, together and ascending.
std::vector<std::vector<size_t>> groups_along(const std::vector<int64_t>& dims,
                                              const std::vector<int64_t>& sizes);

}  // namespace lockstep::oracle
