// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `checkpoint`: tensors that are saved from some placements and loaded into others, as
// a Case, which is an empty Program. Its seed draws their bits.
#pragma once
#include <string>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

// What happens between save and load to the files.
enum class Harm {
  kNone,
  kByte,      // one is changed
  kCut,       // a file ends early
  kLonger,    // or has a byte more
  kGone,      // or is no more
  kExchanged  // two of them have each other's names
};

struct Saving {
  std::vector<std::vector<int64_t>> shapes = {{4, 4}};
  std::vector<c10::ScalarType> dtypes = {c10::ScalarType::Float};  // one for each tensor
  std::vector<Placements> from = {{Replicate{}}}, into = {{Replicate{}}};
  DeviceMesh onto = DeviceMesh({1});  // where they are loaded: at most as many ranks
  int64_t plain = 0;                  // so many of the last tensors are plain ones
  int64_t older = 0;                  // 1: over a checkpoint of other bits
  int64_t one_by_one = 0;             // 1: a load for each, in descending order
  Harm harm = Harm::kNone;
  int64_t at = 0;  // which file, and where in it

  DeviceMesh mesh = DeviceMesh({1});
  uint64_t seed = 0;

  bool is_plain(size_t tensor) const { return static_cast<int64_t>(shapes.size() - tensor) <= plain; }
  std::string name(size_t tensor) const;
  // Of any bits. @param age 0: what is saved, 1: what was there before, 2: what is there before the load
  at::Tensor value(size_t tensor, uint64_t age = 0) const;
};

// Throws Error for a Case that is none.
Saving saving_of(const oracle::Case& c);
// @post saving_of(result) is `saving`
oracle::Case case_of(const Saving& saving);

// A pure function of both.
Saving any_saving(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_savings(const oracle::Case& c);

}  // namespace lockstep::suites
