// SPDX-License-Identifier: Apache-2.0
// Work that is counted, not timed: the same in every run of one binary.
#pragma once
#include <functional>

namespace lockstep::suites {

// Tensor storages that the action allocates, on this thread.
double tensor_allocations(const std::function<void()>& action);
// Placements that the engine decides anew during the action, on this thread.
double decisions(const std::function<void()>& action);

}  // namespace lockstep::suites
