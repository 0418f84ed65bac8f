// SPDX-License-Identifier: Apache-2.0
// Swarm testing: each case leaves out ops, dtypes and placements at random, so that what remains meets itself
// often.
#pragma once
#include "generators/program/builder.h"

namespace lockstep::generators {

// How likely each feature is, in percent, for the cases of one suite.
struct Profile {
  int64_t max_ranks = 8;
  int64_t integer_lane = 35;
  int64_t backward = 0;
  int64_t specials = 20;  // of the cases outside the integer lane
  int64_t max_numel = 160;
  int64_t varied = 25;       // of calls: an argument that no maker thought of
  int64_t outs = 0;          // of calls: into a tensor that is there already
  int64_t refused = 0;       // of views and in-place calls: one that has to be refused, which ends the case
  bool exact_terms = false;  // a Partial input folds to the same bits on every mesh
};

Settings draw_settings(Random& random, const Profile& profile);
// Small devices let few elements fill a launch; the last is an H100.
DeviceModel draw_device(Random& random);

}  // namespace lockstep::generators
