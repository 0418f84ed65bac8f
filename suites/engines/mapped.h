// SPDX-License-Identifier: Apache-2.0
// What a Program's local_map and mesh_map are on Lockstep's own engine.
#pragma once
#include <functional>

#include "engine/tensor/dtensor.h"
#include "oracle/program/statements.h"

namespace lockstep::suites {

// Puts another mesh in the place of one that a mesh_map has made of the whole.
using Remade = std::function<DeviceMesh(const DeviceMesh& whole, const DeviceMesh& made)>;

// to_local, an op, from_local: on every rank, or on each of the meshes that are made of this one.
at::Tensor mapped(const MeshInWorld& mesh, const oracle::LocalMap& map,
                  const std::vector<at::Tensor>& operands, const Remade& remade);

}  // namespace lockstep::suites
