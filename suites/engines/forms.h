// SPDX-License-Identifier: Apache-2.0
// What gives a redistribution in another form: a list, a functional collective, padded locals. Law: on every
// rank the bits that redistribute gives.
#pragma once
#include <functional>
#include <string>

#include "engine/tensor/dtensor.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

// What is done wrong; null: nothing.
struct SpoilForms {
  // The group for a mesh dimension, by its name.
  std::string (*group)(const DeviceMesh& mesh, int64_t mesh_dim) = nullptr;
  // Padded locals of what ranks hold, before they are taken back.
  void (*padded)(PerRank<at::Tensor>& padded, const PerRank<at::Tensor>& own) = nullptr;
};

// All throw logic_error naming the form, the rank and the Specs.
// The tensor and zeros that lie as it does, together to the target.
void check_list(const at::Tensor& tensor, const oracle::Target& target);
// Every functional collective that takes it, along each mesh dimension.
void check_collectives(const at::Tensor& tensor, const SpoilForms& spoil);
// Its padded locals, and back.
void check_padded(const at::Tensor& tensor, const SpoilForms& spoil);

}  // namespace lockstep::suites
