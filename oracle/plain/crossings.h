// SPDX-License-Identifier: Apache-2.0
// What the statements of a Program about placements are on one device: copies, and for a local_map or a
// mesh_map slices that are cut, computed with and put together again.
#pragma once
#include "engine/values/device_mesh.h"
#include "oracle/plain/evaluate.h"

namespace lockstep::oracle {

// @param recording is told what is a copy and what crosses between a mesh and plain tensors; null: nobody is.
// @pre both outlive every backward of what is made.
Placing on_one_device(const DeviceMesh& mesh, Recording* recording = nullptr);

}  // namespace lockstep::oracle
