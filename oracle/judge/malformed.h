// SPDX-License-Identifier: Apache-2.0
// Whether a timeline can be read at all. Nothing of what an engine hands in is believed: what is no record of
// tensors is the engine's failure, before anything is looked up in it.
#pragma once
#include <span>
#include <string>

#include "engine/values/timeline.h"
#include "oracle/judge/check.h"

namespace lockstep::oracle {

// What does not fit within the entry, or ""; its op is one that there is, the lengths of its lists agree, and
// each tensor lies on the Program's mesh and has a digest, and strides if it gives them, for every position.
// @param mesh null: the Program places nothing
std::string malformed(const TimelineEntry& entry, const DeviceMesh* mesh);
// The same of one tensor.
std::string malformed(const TensorRecord& record, const DeviceMesh* mesh);
// The number of the first entry that is malformed; their number if none is.
size_t find_malformed(const Timeline& timeline, const DeviceMesh* mesh);

// The mesh of what a Program begins and ends with; null if it places nothing.
const DeviceMesh* mesh_of(std::span<const Start> starts, std::span<const Final> finals);

}  // namespace lockstep::oracle
