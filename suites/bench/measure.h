// SPDX-License-Identifier: Apache-2.0
// How long something takes, in this thread's own time: another process on the core does not count. And what
// is counted, not timed: the same in every run of one binary.
#pragma once
#include <functional>
#include <vector>

namespace lockstep::suites {

// @pre not empty
double median(std::vector<double> values);

using Action = std::function<void()>;

double thread_seconds();

// Seconds of one call of `action`, run until `least` seconds have passed.
double seconds_per_call(const Action& action, double least);

// Seconds of one call of `action` above one call of `base`: both in turns, so that whatever slows the one
// slows the other; the median turn counts. May be negative.
double seconds_above(const Action& action, const Action& base, double least);

// Tensor storages that the action allocates, on this thread.
double tensor_allocations(const Action& action);
// Placements that the engine decides anew during the action, on this thread.
double decisions(const Action& action);

}  // namespace lockstep::suites
