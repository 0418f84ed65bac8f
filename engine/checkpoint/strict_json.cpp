// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/strict_json.h"

#include <set>

#include "engine/values/error.h"

namespace lockstep::dcp {

static constexpr int kDeepest = 8;

void require_text(const std::string& text, const char* what) {
  try {
    static_cast<void>(Json(text).dump());
  } catch (const Json::exception&) {
    throw Error(concat("[checkpoint] ", what, " is no UTF-8, which names in files are"));
  }
}

Json parse_object(const std::string& who, const std::string& text) {
  std::vector<std::set<std::string>> names;
  // Libraries take the last of two.
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    LOCKSTEP_CHECK(depth <= kDeepest, who, " its JSON nests deeper than ", kDeepest);
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      throw Error(concat(who, " it names ", value.dump(), " twice"));
    return true;
  };
  try {
    auto json = Json::parse(text, look);
    LOCKSTEP_CHECK(json.is_object(), who, " its JSON is no object");
    return json;
  } catch (const Json::exception& e) {
    throw Error(concat(who, " it is no JSON (", e.what(), ")"));
  }
}

std::vector<int64_t> sizes(const std::string& who, const Json& json, const std::string& what) {
  std::vector<int64_t> all;
  LOCKSTEP_CHECK(json.is_array() && json.size() <= 64, who, " ", what, " is no list of sizes");
  for (const auto& item : json) {
    const bool fits = item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t{1} << 62;
    LOCKSTEP_CHECK(fits, who, " ", what, " has ", item.dump());
    all.push_back(item.get<int64_t>());
  }
  return all;
}

int64_t bytes_of(const std::string& who, const std::vector<int64_t>& shape, size_t element) {
  auto bytes = static_cast<int64_t>(element);
  for (const int64_t n : shape)
    LOCKSTEP_CHECK(!__builtin_mul_overflow(bytes, n, &bytes), who, " a tensor of that shape has no size");
  return bytes;
}

}  // namespace lockstep::dcp
