// SPDX-License-Identifier: Apache-2.0
// Cases that passed and are kept all the same: at the boundary of what a shape or a mesh may be, or slow.
#pragma once
#include <cstdint>
#include <vector>

#include "dashboard/store/rows.h"
#include "suites/core/suite.h"

namespace lockstep::dashboard {
class Store;
}

namespace lockstep::suites {

inline constexpr int64_t kSlowKept = 5;            // of all suites together
inline constexpr int64_t kBoundarySearched = 500;  // cases of each suite, the first ones

// Labels of a case at a boundary: sizes 0 and 1, one rank, shards that are uneven or empty (a size just
// beside a multiple of the mesh's, or below it), values at the ends of their dtype.
const std::vector<const char*>& boundary_labels();

// Of `known`, what a run replays: of the boundary cases the shortest tokens that have every pair (suite,
// boundary label) of them all; of the slow ones the kSlowKept that took longest. The other origins stay as
// they are.
// @post the same whatever the order of `known`; at most suites x labels + kSlowKept of these two origins
std::vector<dashboard::KeptCase> thin_witnesses(std::vector<dashboard::KeptCase> known);

// What a run adds to `known`: for each pair (suite, boundary label) that no known case has, the first case
// that passed and has it; and of the slowest kSlowKept, known ones included, those that are not known. Only
// of suites whose cases are drawn: those of a finite suite come in every run.
std::vector<dashboard::KeptCase> new_witnesses(const dashboard::Store& store, const dashboard::Run& run,
                                               const std::vector<const Suite*>& chosen,
                                               std::vector<dashboard::KeptCase> known);

}  // namespace lockstep::suites
