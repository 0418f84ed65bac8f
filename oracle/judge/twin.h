// SPDX-License-Identifier: Apache-2.0
// For engines that do not log what they did: the float64 answer of a whole Case, how far from it an engine
// may be, and whether that is so far that a wrong one would not be seen.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "oracle/program/program.h"

namespace lockstep::oracle {

// The same Case with every floating dtype widened. Throws Error for a Program that reads the bits of its
// values as another dtype.
Case float64_twin(const Case& c);

// The values of a Case in float64, by number, and their reach: what rounding anywhere on the way can move
// them by. Every op is disturbed by the bound of its roundings, a few times with other signs and sizes; the
// reach is a multiple of what comes of it at the end, infinite where a disturbance finds no number.
struct Reach {
  struct Value {
    at::Tensor answer;    // double, or integers as they are; undefined: no value
    at::Tensor reach;     // double; undefined of integers
    bool settled = true;  // of integers: no disturbance changed one
  };
  std::vector<Value> values;
};
// @param plain the plain run's values. In the roundings of the coarsest floating dtype among them.
Reach reach_of(const Case& c, const std::vector<at::Tensor>& plain);

// For each value, the elements whose sign, where they are zeros, is up to the order of terms; undefined where
// nothing floats.
std::vector<at::Tensor> open_signs(const Case& c, const std::vector<at::Tensor>& plain);

// For each value: an input part that one rank may hold could be lost, counted twice, or averaged where it is
// summed, and the value would change, but stay within its reach. @pre c is its own float64 twin
std::vector<bool> blind_spots(const Case& c, const std::vector<at::Tensor>& plain, const Reach& reach);

}  // namespace lockstep::oracle
