// SPDX-License-Identifier: Apache-2.0
// Ops on meshes that are made of the Program's: of some of its dimensions, or of all of them in one.
#pragma once
#include "generators/program/builder.h"

namespace lockstep::generators {

// Appends a mesh_map of one op. @pre the mesh has two dimensions or more
void map_on_meshes(Builder& b);

}  // namespace lockstep::generators
