// SPDX-License-Identifier: Apache-2.0
// The numbers of the README. They are read from stores, part by part, frozen in golden/numbers.json, and
// the README's section is a function of that file: what stands there was measured, or the check fails.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::readme {

using Json = nlohmann::ordered_json;

// Each measures the newest run of each store, and throws std::runtime_error that says which number is
// missing. "machine", "run", "faults" and "rate", of `lockstep run` and of `lockstep run --suite program
// --time 60`.
Json measure_runs(const std::string& run, const std::string& rate);
// "grid", "init" and "alone", of `lockstep run --suite grid`, of `lockstep init`, and of its ranks alone.
Json measure_draws(const std::string& grid, const std::string& init, const std::string& alone);
// "curves", of `lockstep curves`.
Json measure_curves(const std::string& store);
// "peers", of `ci/peers`.
Json measure_peers(const std::string& store);
// Markdown, without the markers.
std::string render(const Json& numbers);
// @post between the markers of the page stands exactly "\n" + section. Throws std::runtime_error without
// markers.
std::string replace_section(const std::string& page, const std::string& section);

}  // namespace lockstep::readme
