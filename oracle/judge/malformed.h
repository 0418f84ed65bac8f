// SPDX-License-Identifier: Apache-2.0
// Whether a timeline can be read at all. Nothing of what an engine hands in is believed: what is no record of
// tensors is the engine's failure, before anything is looked up in it.
#pragma once
#include <string>

#include "engine/values/timeline.h"

namespace lockstep::oracle {

// What does not fit within the entry, or ""; the lengths of its lists agree, and each tensor has a digest,
// and strides if it gives them, for every position of its mesh.
std::string malformed(const TimelineEntry& entry);
// The same of one tensor.
std::string malformed(const TensorRecord& record);

}  // namespace lockstep::oracle
