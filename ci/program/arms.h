// SPDX-License-Identifier: Apache-2.0
// How binaries that were measured in turns lie in the store: the names of the arms of a sample. The k-th
// sample of an arm (its `seq`, counted by the recorder) belongs to round k.
#pragma once
#include <string_view>

namespace lockstep::program {

// A round takes one sample of each of three arms, in an order drawn anew for every round: the order is what
// makes the test exact, since with one and the same binary in two arms the sign of their difference is then a
// coin's. Each sample comes from a process of its own: what a process draws once (addresses, pages) would
// otherwise stay for a whole batch and pass for a difference of the binaries.
inline constexpr std::string_view kCandidate = "candidate";
inline constexpr std::string_view kAgain = "again";  // the candidate's binary once more: they differ by noise
inline constexpr std::string_view kBaseline = "baseline";

// A second batch of rounds, for the series that may have changed, measured after the first has ended
// and written into the same run.
inline constexpr std::string_view kConfirmCandidate = "confirm-candidate";
inline constexpr std::string_view kConfirmBaseline = "confirm-baseline";

// A plain run: no turns. It is compared with history.
inline constexpr std::string_view kPlain = "";

}  // namespace lockstep::program
