// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a Route on local tensors. Decides nothing: what moves where is in the Route.
#pragma once
#include "engine/layout/route.h"
#include "engine/values/per_rank.h"
#include "engine/world/comm.h"

namespace lockstep {

// @pre locals are placed as route.from, one for each hosted position. @post placed as route.to; fresh
// storage, dense in the order of the Spec's strides; the input itself if the route has no steps.
PerRank<at::Tensor> execute(const Route& route, const PerRank<at::Tensor>& locals, const Comm& comm);

// The identity of a reduction: x op identity has the bits of x, for every x. -0.0 for a sum.
at::Scalar identity(ReduceOp op, c10::ScalarType dtype);

// Terms folded from the left in the order given; avg divides the root by their number.
at::Tensor fold(ReduceOp op, const std::vector<at::Tensor>& terms);

// A dense local tensor for a rank's part of `spec`, not filled.
at::Tensor empty_local(const Spec& spec, const std::vector<int64_t>& shape);
// The tensor itself if its strides are those of a dense local of `spec`, else a copy that has them.
at::Tensor conform(const at::Tensor& local, const Spec& spec);
// For a view: the same memory, with the strides of such a local for its dimensions of size 1; some kernels
// choose by those.
at::Tensor conform_view(const at::Tensor& local, const Spec& spec);

// The elements of `local` in a region, as a tensor of the region's shape.
at::Tensor take(const at::Tensor& local, const Region& region);
// Writes `block` to the elements of `local` in a region.
void put(const at::Tensor& local, const Region& region, const at::Tensor& block);

}  // namespace lockstep
