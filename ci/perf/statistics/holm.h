// SPDX-License-Identifier: Apache-2.0
// Correction of p for the number of series judged together.
#pragma once
#include <span>
#include <vector>

namespace lockstep::perf {

// Law (Holm, Scandinavian Journal of Statistics 6, 1979): if every p is valid, the chance that any series
// without an effect has a corrected p <= alpha is at most alpha, whatever the others do and however they
// depend on each other. `family` may be larger than the list: members that are judged elsewhere.
std::vector<double> holm(std::span<const double> p, size_t family);

}  // namespace lockstep::perf
