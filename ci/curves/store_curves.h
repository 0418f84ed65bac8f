// SPDX-License-Identifier: Apache-2.0
// A compared pair of curves as rows of the store, and as words and JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ci/curves/compare.h"
#include "dashboard/store/recorder.h"

namespace lockstep::curves {

struct Difference {
  std::string name, reference, candidate;  // "" where a side does not say
};
// The facts of the two environments that are not the same, by name.
std::vector<Difference> environment_difference(const Pair& pair);

// Two curves, each step with the hash of all bits up to it; two gates; what is known of either side as facts:
// "reference.NAME", "candidate.NAME" of its environment, "source of …", "note on …".
// @pre run_id is that of the recorder's run: it keeps pairs of one store apart
void record(const Pair& pair, const Comparison& c, const std::string& run_id, dashboard::Recorder& recorder);

// True if there are common steps and all are equal.
bool equal(const Comparison& c);

std::string text_of(const Pair& pair, const Comparison& c);
nlohmann::json json_of(const Pair& pair, const Comparison& c);

// 128 bits over the bytes of a file, or of a folder's files with their names, as 32 hex digits.
std::string file_digest(const std::string& path);

}  // namespace lockstep::curves
