// SPDX-License-Identifier: Apache-2.0
// The parallel plans of the models that are trained, by the names of the mesh's dimensions.
#pragma once
#include "engine/fsdp/mixed_precision.h"
#include "engine/plan/plan.h"
#include "engine/tensor/dtensor.h"
#include "suites/train/language_model.h"

namespace lockstep::suites {

// Of a model on a mesh with any of these:
// - tp: linears by columns and by rows in turn, heads, table of tokens and loss by vocabulary; what lies
//   between is on pieces of the sequence (Megatron's TP+SP), or whole where the mesh has sp, too (TP);
// - sp: tokens and all that is made of them on pieces of the sequence, the keys and values that a piece asks
//   for gathered; one rank cuts nothing, so that "sp:1,tp:2" is TP alone;
// - ep: experts, each rank has some;
// - fsdp: parameters, those of each layer in a buffer, and then the rest.
// Along the others parameters are replicated. Heads that the ranks of tp do not share evenly are cut
// unevenly, and gathered around the views that fold them into features.
ParallelPlan model_plan(const ModelOptions& options, const DeviceMesh& mesh);

// The model by its plan.
// @param block_rows of matrices, that no rank has a part of; 0: they are cut anywhere
void parallelize_model(nn::Module& model, const ModelOptions& options, const MeshInWorld& mesh,
                       const MixedPrecisionPolicy& precision = {}, int64_t block_rows = 0);

// Tokens and targets: cut by sequence along sp, the same along tp, cut by examples along all others.
Placements batch_placements(const DeviceMesh& mesh);

}  // namespace lockstep::suites
