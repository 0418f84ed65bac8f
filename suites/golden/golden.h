// SPDX-License-Identifier: Apache-2.0
// Golden: what stock libtorch drew on a GPU, frozen in golden/rng: recorded by golden/record, published by
// others, or computed by independent code until a GPU has recorded it. This file knows the text form alone.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stream/random_call.h"
#include "suites/golden/stock_op.h"

namespace lockstep::suites {

// One draw of one operator: all that decides its bits.
struct RandomCell {
  std::string op;  // of stock_op.h
  Arguments arguments;
  TensorForm form;
  DeviceModel device;
  RandomState state;
  bool operator==(const RandomCell&) const = default;
};
// "uniform_(from=-0.5, to=0.5) f32[4x6] stride 1x4, seed 1234, offset 8, 132x2048".
std::string to_string(const RandomCell& cell);

enum class Origin { kRecorded, kPublished, kComputed };
const char* name(Origin origin);  // "recorded", "published", "computed"

struct Golden {
  Origin origin = Origin::kRecorded;
  std::string source;  // where the values are from, for people
  RandomCell cell;
  // What is known of the result. Elements are numbered row-major; `printed` and `bits` go with `at`, or are
  // empty.
  std::optional<uint64_t> offset_after, fnv1a64;
  std::string sum;  // of all elements, as printed
  std::vector<int64_t> at;
  std::vector<std::string> printed, bits;
  bool operator==(const Golden&) const = default;
};

// The text of a file. @post parse_goldens(goldens_text(g)) == g for goldens of one origin.
std::string goldens_text(Origin origin, const std::vector<std::pair<std::string, std::string>>& provenance,
                         const std::vector<Golden>& goldens);
// Throws Broken that names the place, where the text is no file of goldens. `file` is for messages.
std::vector<Golden> parse_goldens(std::string_view text, const std::string& file);

// Every golden of every *.json in the folder, in order of file names. Throws Broken for a folder or file that
// cannot be read.
std::vector<Golden> read_goldens(const std::string& folder);
// The folder that Lockstep ships, or the one that the environment variable LOCKSTEP_GOLDEN names. Throws
// Error if that is none.
std::string golden_folder();

}  // namespace lockstep::suites
