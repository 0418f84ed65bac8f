// SPDX-License-Identifier: Apache-2.0
// What a training's checkpoint says of it beside its tensors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/context/generator.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// Where it was when it was saved.
struct SavedRun {
  int64_t step = 0;  // that was done last
  Chain chain{};
  RandomState random;
};

dcp::Metadata metadata_of(const TrainOptions& options, std::string_view text, const SavedRun& run);

// Of the checkpoint options.resume. Throws Error for one that is of no training, of one of other tensors, or
// done with all the steps that the options ask for.
SavedRun saved_run(const TrainOptions& options, const dcp::Metadata& metadata);

// In what the training that was saved differs from these options: "--lr 0.001 before, 0.002 now". Its further
// steps are not those of the one that was saved, then. Throws Error as saved_run does.
std::vector<std::string> resumed_otherwise(const TrainOptions& options, std::string_view text,
                                           const dcp::Metadata& metadata);

}  // namespace lockstep::suites
