// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `train`: a training as a Case, which is an empty Program. Its mesh trains, its seed
// and device are the stream's, and its options say how what is trained differs from the default.
#pragma once
#include <vector>

#include "oracle/program/program.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// Throws Error for a Case that is no training: one with a Program, an option that does not exist or has no
// such value, what check_options refuses.
TrainOptions training_of(const oracle::Case& c);
// @post training_of(result) is `options`, in all that a Case of this suite can say
oracle::Case case_of(const TrainOptions& options);

// Smaller trainings, the boldest first: one step of the smallest model, fewer ranks, fewer steps, layers and
// sizes, no dropout, a simpler optimizer. Each is of smaller size in some respect and greater in none.
std::vector<oracle::Case> simpler_trainings(const oracle::Case& c);

}  // namespace lockstep::suites
