// SPDX-License-Identifier: Apache-2.0
// JSON of strangers: an object in which no name occurs twice, and numbers that are sizes.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::dcp {

using Json = nlohmann::json;

// Throws Error that names `what`, unless JSON can say it.
void require_text(const std::string& text, const char* what);
// Throws Error that begins with `who` for everything else, and for what nests deeper than any header of ours.
Json parse_object(const std::string& who, const std::string& text);
// A list of at most 64 numbers from 0 to 2^62. Throws Error that begins with `who` and names `what`.
std::vector<int64_t> sizes(const std::string& who, const Json& json, const std::string& what);
// Bytes of a tensor. Throws Error that begins with `who` if there is no such number.
int64_t bytes_of(const std::string& who, const std::vector<int64_t>& shape, size_t element);

}  // namespace lockstep::dcp
