// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `dbuffer`: a group of tensors in one buffer, as a Case, which is an empty Program.
// Its mesh gathers and reduces, its seed draws the values, and its options say what of.
#pragma once
#include <vector>

#include "engine/fsdp/planner.h"
#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

struct Grouping {
  std::vector<std::vector<int64_t>> shapes = {{4}};
  // Of tensors of two dimensions and more; others are replicated. Replicate along `dim`.
  Placements placements = {Replicate{}};
  int64_t dim = 0;    // of the mesh, along which they are cut
  int64_t pends = 0;  // bit d: gradients pend along mesh dimension d too, where these placements replicate
  int64_t among = 0;  // k: what is gathered is kept among k neighbours, and gathered again
  int64_t rows = 0;   // of tensors of two dimensions and more, that stay together; 0: blocks of one element
  c10::ScalarType dtype = c10::ScalarType::Float, gathered = c10::ScalarType::Float;
  fsdp::Order order = fsdp::Order::kDefault;

  DeviceMesh mesh = DeviceMesh({1});
  uint64_t seed = 0;

  Placements placements_of(size_t i) const;
};

// Throws Error for a Case that is none.
Grouping grouping_of(const oracle::Case& c);
// @post grouping_of(result) is `grouping`
oracle::Case case_of(const Grouping& grouping);

// A pure function of both.
Grouping any_grouping(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_groupings(const oracle::Case& c);

}  // namespace lockstep::suites
