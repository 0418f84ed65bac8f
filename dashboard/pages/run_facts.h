// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: what each found, and in what they differ. The runs may lie in different databases.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dashboard/report/html.h"

namespace lockstep::dashboard {

// All that is compared of one run.
struct RunFacts {
  std::string name{}, page{};  // printed id; its page, for an attribute
  std::map<std::string, std::string> summary{}, environment{};
  std::map<std::string, int64_t> verdicts{}, labels{};
  std::map<std::string, int64_t> buckets{};    // cases by signature
  std::map<std::string, int64_t> covered{};    // hits by "op on placement"
  std::map<std::string, double> rates{};       // by suite and series
  std::map<std::string, std::string> units{};  // of the rates
};

// @returns nothing if the store has no such run.
std::optional<RunFacts> facts_of(const Source& source, int64_t run_id);

// Law: a row for each thing in which the two differ, and of verdicts, summary and rates one for each.
std::string compared(const RunFacts& a, const RunFacts& b);

}  // namespace lockstep::dashboard
