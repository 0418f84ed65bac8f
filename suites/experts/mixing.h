// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `experts`: tokens and a mixture of experts (nn/experts.h), dealt out over a mesh, as
// a Case, which is an empty Program. Its seed draws all values.
#pragma once
#include <string>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

struct Mixing {
  int64_t tokens = 4, sequence = 0;  // a sequence of 0: tokens have no further dimension
  int64_t hidden = 2, inner = 2;
  int64_t experts = 2, top_k = 1;
  int64_t route = 0;   // 0: as values say, 1: all scores tie, 2: those of neighbours, 3: one expert has all
  int64_t along = -1;  // the mesh dimension that experts are cut along; -1: none
  Placements cut = {Replicate{}};  // of the tokens
  c10::ScalarType dtype = c10::ScalarType::Float;

  DeviceMesh mesh = DeviceMesh({1});
  uint64_t seed = 0;

  std::vector<int64_t> shape() const;  // of the tokens
  // Drawn by the seed alone. Weights: gate, gate_proj, up_proj, down_proj.
  at::Tensor x() const;
  at::Tensor grad() const;
  at::Tensor weight(size_t which) const;
};

// Throws Error for a Case that is none.
Mixing mixing_of(const oracle::Case& c);
// @post mixing_of(result) is `mixing`
oracle::Case case_of(const Mixing& mixing);

// A pure function of both.
Mixing any_mixing(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_mixings(const oracle::Case& c);

}  // namespace lockstep::suites
