// SPDX-License-Identifier: Apache-2.0
// A case of the suite `checkpoint` on ranks: saved, read, harmed, loaded.
#pragma once
#include "engine/world/world.h"
#include "suites/checkpoint/saving_fault.h"

namespace lockstep::suites {

// Facts of a case, by their place in its report.
enum class SavingFact {
  kRefused,   // the load threw an Error
  kNamed,     // that names a tensor, a file or the index of the case
  kUnlisted,  // tensors in files that the index does not name
  kRepeated,  // elements that files have more than once, or not at all
  kFiles,     // of tensors
  kCount
};

// On the mesh of all ranks as one dimension: of each tensor what the ranks hold of it after the load, one
// rank behind the other, as bytes; of each what its files say, whole (after harm undefined); the facts, on
// each rank; and of each rank the bytes that it sent while it saved.
std::vector<at::Tensor> saved_and_loaded(const WorldPtr& world, const Saving& saving,
                                         const SavingFault& fault = {});

}  // namespace lockstep::suites
