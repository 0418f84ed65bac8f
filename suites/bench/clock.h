// SPDX-License-Identifier: Apache-2.0
// How long something takes, in this thread's own time: another process on the core does not count.
#pragma once
#include <functional>

namespace lockstep::suites {

using Action = std::function<void()>;

double thread_seconds();

// Seconds of one call of `action`, run until `least` seconds have passed.
double seconds_per_call(const Action& action, double least);

// Seconds of one call of `action` above one call of `base`: both in turns, so that whatever slows the one
// slows the other; the median turn counts. May be negative.
double seconds_above(const Action& action, const Action& base, double least);

}  // namespace lockstep::suites
