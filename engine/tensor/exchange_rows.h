// SPDX-License-Identifier: Apache-2.0
// Rows that change places on their way: what a mixture of experts sends to the ranks that have the experts,
// and back.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/placement.h"

namespace lockstep {

// Rows are all dimensions of `rows` but the last: row i of the result, [*leading, features], in memory
// without gaps, is row order[i]. Along `mesh_dim` the result is placed as said, along other mesh dimensions
// as `rows`. What a rank lacks is sent to it, once, by one of those along `mesh_dim`; -1: nothing is sent,
// rows change places on their rank alone. Of plain tensors, experts::permute_rows
// (kernels/operators/experts.h), as which it is logged. Differentiable: a gradient goes back by `inverse`.
// @param rows one run of rows on each rank: along `mesh_dim` Replicate, Shard(0) or a RaggedShard that cuts
// between rows, as `placement` is; along the others Replicate or Shard of the first or last dimension
// @param order, inverse int64[n], order[inverse[i]] == i; each rank has at least the places of all rows along
// `mesh_dim`, before and after
// Throws Error for rows that pend or are cut otherwise, a place that is no row, and for a row that no rank
// along `mesh_dim` has.
at::Tensor exchange_rows(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& inverse,
                         int64_t mesh_dim, const Placement& placement, const std::vector<int64_t>& leading);

}  // namespace lockstep
