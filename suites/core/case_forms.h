// SPDX-License-Identifier: Apache-2.0
// How options of a Case write shapes and placements, with none of the characters that tokens need.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/values/placement.h"

namespace lockstep::suites {

// "6x10-4-s": s has no dimension.
std::string shapes_text(const std::vector<std::vector<int64_t>>& shapes);
// Of at most three sizes each, of at most `most`. Throws Error that names the suite.
std::vector<std::vector<int64_t>> parse_shapes(const char* suite, const std::string& text, int64_t most);

// "R.G2_1_0_3": of the second the first two dimensions are in blocks, of which ranks have 1, 0 and 3. Lists
// of blocks stand one behind another, as in G2_1_3l2_2.
std::string cut_text(const Placements& placements);
Placements parse_cut(const char* suite, std::string_view text);
// "R.S0-S1.R": of several tensors.
std::string cuts_text(const std::vector<Placements>& cuts);
std::vector<Placements> parse_cuts(const char* suite, const std::string& text);

}  // namespace lockstep::suites
