// SPDX-License-Identifier: Apache-2.0
// One activity, for people and for programs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/context/activity.h"

namespace lockstep::debug {

// "aten::mm f32[4x3]@[S0], f32[3x2]@[R] -> f32[4x2]@[S0]", "all_gather, 96 bytes, for aten::mm".
std::string to_text(const Activity& activity);

// {"kind","name","module","phase"}, and what it has: of a module "module_type"; of an op "given", "ran_on",
// "outputs", and "why", "candidates"; of a redistribution "from", "to", "implicit", "moved"; of a collective
// "bytes", "asked_by". Specs are texts, null where plain or undefined.
nlohmann::ordered_json to_json(const Activity& activity);

// "along tp: the cheapest of 3, 0 bytes; …": each choice of an op. @pre it has candidates
std::string why(const Activity& activity);

}  // namespace lockstep::debug
