// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a Route on local tensors. Decides nothing: what moves where is in the Route.
#pragma once
#include "engine/layout/route.h"
#include "engine/values/per_rank.h"
#include "engine/world/comm.h"
#include "engine/world/world.h"

namespace lockstep {

// @pre locals are placed as route.from, one for each hosted position of its mesh, `comm`'s; `after` is that
// of route.to, in the same World. @post placed as route.to, for the positions there; fresh storage, dense in
// the order of the Spec's strides; the input itself if the route has no steps.
PerRank<at::Tensor> execute(const Route& route, const PerRank<at::Tensor>& locals, const Comm& comm,
                            const Comm& after);

// The same with its last step begun and not waited for: those before it are done, since ranks begin their
// exchanges in one order, and may wait in any. `comm` and `after` outlive the wait.
struct Moving {
  std::shared_ptr<PerRank<at::Tensor>> locals;  // there after the wait
  Work work;
};
Moving begin(const Route& route, const PerRank<at::Tensor>& locals, const Comm& comm, const Comm& after);

// Several on one mesh, step by step: what their k-th steps ask of the World is one exchange where it is of
// one kind along the same mesh dimension (world/together.h). Law: each has the bits that execute() gives it.
std::vector<PerRank<at::Tensor>> execute_together(const std::vector<const Route*>& routes,
                                                  std::vector<PerRank<at::Tensor>> locals, const Comm& comm);

// The identity of a reduction: x op identity has the bits of x, for every x. -0.0 for a sum.
at::Scalar identity(ReduceOp op, c10::ScalarType dtype);

// A dense local tensor for a rank's part of `spec`, not filled.
at::Tensor empty_local(const Spec& spec, const std::vector<int64_t>& shape);
// The tensor itself if its strides are those of a dense local of `spec`, else a copy that has them.
at::Tensor conform(const at::Tensor& local, const Spec& spec);
void conform_all(PerRank<at::Tensor>& locals, const Spec& spec);
// For a view: the same memory, with the strides of such a local for its dimensions of size 1; some kernels
// choose by those.
at::Tensor conform_view(const at::Tensor& local, const Spec& spec);

}  // namespace lockstep
