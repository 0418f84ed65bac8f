// SPDX-License-Identifier: Apache-2.0
// ByWay: the redistributions of one run of a Program, each by way of another mesh, as its Case says
// (across.h).
#pragma once
#include "engine/tensor/dtensor.h"
#include "engine/values/timeline.h"
#include "suites/core/across.h"
#include "suites/engines/forms.h"
#include "suites/engines/mapped.h"

namespace lockstep::suites {

class ByWay {
 public:
  // @param timeline of the run
  // @param remade what becomes of a mesh on the way (mapped.h); null: nothing
  ByWay(MeshInWorld home, int64_t seed, Timeline& timeline, Remade remade, SpoilForms spoil)
      : home_(std::move(home)), seed_(seed), timeline_(timeline), remade_(std::move(remade)), spoil_(spoil) {}

  // The next one. Throws logic_error where a rank there holds other elements than brute force gives it, or
  // another form of the redistribution (forms.h) gives other bits.
  at::Tensor move(const at::Tensor& tensor, const oracle::Target& target);
  // After the run: a way there and back is one move in the timeline, and what looked at it is not there. (Not
  // before: exchanges are told apart by the place of their op in it.)
  void tidy();

 private:
  const MeshInWorld home_;
  const int64_t seed_;
  Timeline& timeline_;
  const Remade remade_;
  const SpoilForms spoil_;
  uint64_t next_ = 0;
  std::vector<size_t> ways_;                       // entries there, which one back follows
  std::vector<std::pair<size_t, size_t>> unseen_;  // from .. to-1
};

// A gradient that went to another mesh and from there back was moved once, on its own.
void join_gradients(Timeline& timeline, const DeviceMesh& home);

}  // namespace lockstep::suites
