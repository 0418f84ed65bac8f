// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `optim`: parameters in any placements and steps of an optimizer that looks at more
// than one element at once, as a Case, which is an empty Program. Its seed draws values and gradients.
#pragma once
#include <string>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

struct Stepping {
  bool muon = false;                                    // else AdamW in 8 bits
  std::vector<std::vector<int64_t>> shapes = {{4, 4}};  // one for each parameter
  std::vector<Placements> cuts = {{Replicate{}}};
  int64_t tile = 2;        // of 8 bits: rows and columns that share a scale
  int64_t least = 1;       // elements of a parameter that has them
  int64_t iterations = 5;  // of Newton-Schulz
  int64_t single = 0;      // 1: in single precision
  int64_t by_rms = 0;      // 1: its learning rate is adjusted to AdamW's
  int64_t plain = 0;       // 1: without nesterov
  int64_t skips =
      0;  // 1: every other parameter has no gradient in every other step, beginning with the first
  int64_t spread = 0;  // bits by which magnitudes of gradients differ, from row to row; some are zero
  int64_t steps = 1;
  c10::ScalarType dtype = c10::ScalarType::Float;

  DeviceMesh mesh = DeviceMesh({1});
  uint64_t seed = 0;

  // Drawn by the seed alone: the same numbers however the parameters are cut.
  at::Tensor value(size_t parameter) const;
  // Undefined: none. @param step from 1
  at::Tensor gradient(size_t parameter, int64_t step) const;
};

// Throws Error for a Case that is none.
Stepping stepping_of(const oracle::Case& c);
// @post stepping_of(result) is `stepping`
oracle::Case case_of(const Stepping& stepping);

// A pure function of both.
Stepping any_stepping(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_steppings(const oracle::Case& c);

}  // namespace lockstep::suites
