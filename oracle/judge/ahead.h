// SPDX-License-Identifier: Apache-2.0
// What the rest of a timeline says of an op of the plain run that the engine may leave out.
#pragma once
#include <functional>
#include <span>

#include "engine/values/timeline.h"
#include "oracle/judge/matching.h"
#include "oracle/judge/places.h"
#include "oracle/judge/shadow.h"

namespace lockstep::oracle {

// Whether the rest begins with this op, after redistributions, what may stand alone and what is passed over:
// at each place it reads what the op does, or what such a redistribution made of that. Or with the first part
// of what it is composed of, which reads one of its inputs.
bool begins_with(std::span<const TimelineEntry> rest, const RecordedOp& op, Shadow& shadow,
                 const IsPlain& is_plain);

// Whether the first of these, a copy, is of another than the copy that gives `result`: it lies otherwise than
// what is handed in of that, and a later copy of the same lies so.
bool is_of_another(std::span<const TimelineEntry> rest, const Window& result, const Places& places,
                   const std::function<bool(const TensorRecord&)>& reads);

// Whether the op is a copy that a backward pass makes, and the entry may be that of a copy which the Program
// makes of it, or of another backward copy of the same gradient.
// @param ops the plain run's, in one form
bool is_copied_on(const RecordedOp& op, const TimelineEntry& entry, std::span<const RecordedOp* const> ops,
                  const Places& places);

}  // namespace lockstep::oracle
