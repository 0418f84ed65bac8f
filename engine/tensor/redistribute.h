// SPDX-License-Identifier: Apache-2.0
// Redistribution of DTensors, below autograd and above it.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "engine/context/activity.h"
#include "engine/layout/route.h"
#include "engine/tensor/dtensor_impl.h"

namespace lockstep {

// Logs a redistribution, if anybody records: only then it is asked in which order it reduces. What it gives
// is written to the entry by the function returned.
using LogResult = std::function<void(const PerRank<at::Tensor>&)>;
LogResult log_redistribution(const DTensorImpl& from, const SpecPtr& to,
                             const std::function<ReductionOrder()>& order, bool implicit = false);

// The redistribution, of a tensor or of a list, as who records is told of it.
Activity activity_of(const std::vector<const Route*>& routes, bool implicit);

// Below autograd: runs the route and logs it. The tensor itself if the route has no steps.
// @param after of the mesh where it ends, in the tensor's World
at::Tensor run_route(const at::Tensor& tensor, const Route& route, bool implicit, const CommPtr& after);
// By the known route. Below autograd.
at::Tensor move_to(const at::Tensor& tensor, const Placements& placements, const std::vector<int64_t>& order,
                   bool implicit);
// redistribute() of some mesh dimensions, one after another in this order; together where at most one of them
// adds up. The tensor itself where nothing moves.
using Along = std::vector<std::pair<size_t, Placement>>;
at::Tensor redistribute_along(const at::Tensor& tensor, const Along& along, bool async_op = false);
// Above autograd, where a gradient has to lie as `target` says: redistribute() that the engine inserts.
at::Tensor inserted_redistribute(const at::Tensor& tensor, const Spec& target, const CommPtr& comm);

}  // namespace lockstep
