// SPDX-License-Identifier: Apache-2.0
#include "suites/core/across.h"

#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

constexpr const char* kOption = "across";

}  // namespace

oracle::Case across(oracle::Case c, int64_t seed) {
  c.options[kOption] = std::to_string(seed);
  return c;
}

std::optional<int64_t> across_of(const oracle::Case& c) {
  const auto found = c.options.find(kOption);
  return found == c.options.end() ? std::nullopt : parse_integer(found->second);
}

}  // namespace lockstep::suites
