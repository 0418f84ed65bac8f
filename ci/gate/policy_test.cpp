// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/policy.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep::gate {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_policy(text, "p.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

// Catches: a part of the policy that is read and forgotten.
TEST(Policy, EverythingIsRead) {
  const Policy p = parse_policy(R"(
version = 1
[effects]
known_difference = "warn"
faster = "off"
[numbers]
cases_ratio = 0.5
alpha = 1e-3
[require]
suites = ["ops", "random"]
labels = { "empty shard" = 50 }
pairs = { "aten::mm/S0,R" = 2 }
[[mute]]
bucket = "ops | value | aten::mm | S | f32"
owner = "ann"
reason = "ticket 7"
expires = 2026-12-31
[[mute]]
bucket = "b"
owner = "o"
reason = "r"
expires = "2027-01-01"
)",
                                "p.toml");
  EXPECT_EQ(p.effects.at("known_difference"), Effect::kWarn);
  EXPECT_EQ(p.effects.at("faster"), Effect::kOff);
  EXPECT_EQ(p.numbers.at("cases_ratio"), 0.5);
  EXPECT_EQ(p.numbers.at("alpha"), 1e-3);
  EXPECT_EQ(p.numbers.at("expected_hits"), 10);
  const std::vector<Demand> demands = {{"suite", "ops", 1},
                                       {"suite", "random", 1},
                                       {"pair", "aten::mm/S0,R", 2},
                                       {"label", "empty shard", 50}};
  EXPECT_EQ(p.demands, demands);
  ASSERT_EQ(p.mutes.size(), 2u);
  EXPECT_EQ(p.mutes[0], (Mute{"ops | value | aten::mm | S | f32", "ann", "ticket 7", "2026-12-31"}));
  EXPECT_EQ(p.mutes[1].expires, "2027-01-01");
}

// A file that says something that is not understood is refused, with file and line. Catches: a typo that
// switches a rule off, or a mute that nobody owns or that never ends.
TEST(Policy, WhatIsNotUnderstoodIsRefused) {
  const std::pair<const char*, const char*> table[] = {
      {"[effect]\n", "p.toml:1: unknown key 'effect'; there are version, effects, require, numbers, mute"},
      {"version = 2\n", "p.toml:1: version must be 1"},
      {"[effects]\nnew_diference = \"warn\"\n", "p.toml:2: unknown key 'new_diference' in [effects]"},
      {"[effects]\nslower = \"yes\"\n", "slower must be \"block\", \"warn\", \"note\" or \"off\""},
      {"[numbers]\ncases_ratio = 2\n", "cases_ratio must be a number from 0 to 1"},
      {"[numbers]\nalpha = \"x\"\n", "alpha must be a number"},
      {"[require]\nsuites = 3\n", "suites must be a list of names"},
      {"[require]\nlabels = { a = 0 }\n", "a must be a count above 0"},
      {"[[mute]]\nbucket = \"b\"\nreason = \"r\"\nexpires = 2026-01-01\n", "owner is missing or empty"},
      {"[[mute]]\nbucket = \"b\"\nowner = \"o\"\nreason = \"\"\nexpires = 2026-01-01\n",
       "reason is missing or empty"},
      {"[[mute]]\nbucket = \"b\"\nowner = \"o\"\nreason = \"r\"\n", "expires is missing"},
      {"[[mute]]\nbucket = \"b\"\nowner = \"o\"\nreason = \"r\"\nexpires = \"never\"\n", "not 'never'"},
      {"[mute]\nbucket = \"b\"\n", "write each mute as [[mute]]"},
      {"version = \n", "p.toml:1: "},
  };
  for (const auto& [text, message] : table)
    EXPECT_NE(error_of(text).find(message), std::string::npos) << error_of(text);
}

TEST(Policy, AMissingFileIsNamed) {
  EXPECT_THROW(read_policy("/nowhere/p.toml"), Error);
}

}  // namespace
}  // namespace lockstep::gate
