// SPDX-License-Identifier: Apache-2.0
// A mistake planted in a case of the suite `plans`, on its mesh alone: what whoever applies or optimizes a
// plan does wrong.
#pragma once
#include "engine/nn/module.h"
#include "engine/values/timeline.h"
#include "suites/plans/parallelizing.h"

namespace lockstep::suites {

// Null functions change nothing.
struct ParallelizingFault {
  void (*applied)(ParallelPlan& plan) = nullptr;        // in place of the case's
  void (*optimized)(ParallelPlan& plan) = nullptr;      // what is left of it
  void (*placed)(nn::Module& model) = nullptr;          // after parallelize
  void (*seen)(nn::Module& model) = nullptr;            // after a step has been seen that runs statically
  void (*after_backward)(nn::Module& model) = nullptr;  // in each step
  void (*told)(Timeline& timeline, const Parallelizing& p) = nullptr;
};

}  // namespace lockstep::suites
