// SPDX-License-Identifier: Apache-2.0
// Policy: what blocks, what warns, what a run must cover, and which known failures are muted until when. A
// TOML file; everything has a default.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::gate {

enum class Effect : uint8_t { kBlock, kWarn, kNote, kOff };
const char* name(Effect effect);  // "block", "warn", "note", "off"

// A known failure that does not block until the day after `expires`. Its owner and reason are stored with
// each judgement.
struct Mute {
  std::string bucket, owner, reason;
  std::string expires;  // last day on which it holds, YYYY-MM-DD
  bool operator==(const Mute&) const = default;
};

// A suite, op, label or pair ("aten::mm/S0,R": op and placements) that the candidate must have, at least so
// often.
struct Demand {
  std::string kind, name;
  int64_t least = 1;
  bool operator==(const Demand&) const = default;
};

struct Policy {
  std::map<std::string, Effect, std::less<>> effects;  // rule -> effect, where it is not the rule's default
  std::vector<Demand> demands;
  std::vector<Mute> mutes;
  // Numbers that the rules read, by name; policy.cpp lists them with their defaults.
  std::map<std::string, double, std::less<>> numbers;
};

// Every default.
Policy default_policy();

// @throws Error that names file, line and the keys that exist: for a key or rule that is unknown (a typo must
// not switch a rule off), a mute without owner, reason or date, a value out of range.
Policy parse_policy(std::string_view text, const std::string& file);
Policy read_policy(const std::string& file);

// True of a day as YYYY-MM-DD: days are compared as text.
bool is_day(const std::string& text);

// The policy in force, defaults written out; what a judgement stores.
std::string to_json(const Policy& policy);

}  // namespace lockstep::gate
