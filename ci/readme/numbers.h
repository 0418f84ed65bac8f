// SPDX-License-Identifier: Apache-2.0
// The numbers of the README. They are read from seven stores, frozen in golden/numbers.json, and
// the README's section is a function of that file: what stands there was measured, or the check fails.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::readme {

using Json = nlohmann::ordered_json;

struct Stores {
  std::string run;     // of `lockstep run`
  std::string rate;    // of `lockstep run --suite program --time 60`
  std::string curves;  // of `lockstep curves`
  std::string grid;    // of `lockstep run --suite grid`
  std::string init;    // of `lockstep init`
  std::string alone;   // of `lockstep init --preset 8b`, for its ranks alone
  std::string peers;   // of `ci/peers`
};

// The newest run of each store. Throws std::runtime_error that says which number is missing.
Json measure(const Stores& stores);
// Only what `lockstep curves` measured.
Json measure_curves(const std::string& store);
// Only what `ci/peers` measured.
Json measure_peers(const std::string& store);
// Markdown, without the markers.
std::string render(const Json& numbers);
// @post between the markers of the page stands exactly "\n" + section. Throws std::runtime_error without
// markers.
std::string replace_section(const std::string& page, const std::string& section);

}  // namespace lockstep::readme
