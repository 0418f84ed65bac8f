// SPDX-License-Identifier: Apache-2.0
// What the engine did, as a file that chrome://tracing and ui.perfetto.dev show: why an op ran as it did,
// which bytes were moved for it, and when.
#pragma once
#include <string>

#include "engine/context/activity.h"
#include "engine/world/worlds.h"

namespace lockstep {

// Writes {"traceEvents":[…]}: each activity a complete event, in microseconds since the log was made, with
// what activity_text.h says of it as `args`, and `bytes_moved` of an op: by redistributions for it, of all
// ranks. Modules hold what they do; backward, what follows each other for one module is within an event that
// has its name. The ranks of one process share a track; a collective that went on while other things were
// done stands in one beside it. Of a World of several processes, or threads, each with a log of its own, all
// that host ranks call this, and the one that hosts rank 0 writes the file, in which each of them is a
// process whose number is its first rank. Throws Error where the file cannot be written, there. (torch:
// profile.export_chrome_trace)
void export_chrome_trace(const std::string& file, const ActivityLog& log, const WorldPtr& world = nullptr);

}  // namespace lockstep
