// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/policy.h"

#include <toml++/toml.h>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "ci/gate/rules.h"
#include "engine/values/error.h"

namespace lockstep::gate {
namespace {

constexpr std::array<const char*, 4> kEffects = {"block", "warn", "note", "off"};

// The numbers of a policy: key in the file, default, and between what it must lie.
struct Number {
  const char* name;
  double value, least, most;
  const char* about;
};
constexpr Number kNumbers[] = {
    {"cases_ratio", 0.8, 0, 1, "least cases of a suite, as a part of the baseline's"},
    {"expected_hits", 10, 1, 1e9, "coverage counts as lost where so many hits were to be expected"},
    {"false_alarm", 0.01, 1e-9, 0.5,
     "chance that any rate of a rule of a judgement, of all that it compares, alarms without reason"},
    {"alpha", 0.01, 1e-9, 0.5, "chance that any timed series of a judgement alarms without reason"},
    {"effect_floor", 0.02, 0, 1, "smallest change of a timed series that counts"},
    {"largest_detectable", 0.1, 0.001, 1, "a series that cannot tell a change of this size is not measured"},
};

template <class Node, class... What>
void check(bool held, const Node& node, const What&... what) {
  const auto& source = node.source();
  LOCKSTEP_CHECK(held, "[policy] ", source.path ? *source.path : "", ":", source.begin.line, ": ", what...);
}

void check_keys(const toml::table& table, const std::vector<std::string>& known, const char* where) {
  std::string list;
  for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
  for (const auto& [key, node] : table)
    check(std::find(known.begin(), known.end(), std::string(key.str())) != known.end(), node, "unknown key '",
          key.str(), "'", where, "; there are ", list);
}

const toml::table& table_of(const toml::table& root, const char* key) {
  static const toml::table empty;
  const toml::node* node = root.get(key);
  if (node == nullptr) return empty;
  check(node->is_table(), *node, key, " must be a table: [", key, "]");
  return *node->as_table();
}

void read_effects(const toml::table& table, Policy& policy) {
  std::vector<std::string> names;
  for (const Rule& r : rules()) names.push_back(r.name);
  check_keys(table, names, " in [effects]");
  for (const auto& [rule, node] : table) {
    const auto found = std::find(kEffects.begin(), kEffects.end(), node.value<std::string>().value_or(""));
    check(found != kEffects.end(), node, rule.str(), " must be \"block\", \"warn\", \"note\" or \"off\"");
    policy.effects[std::string(rule.str())] = static_cast<Effect>(found - kEffects.begin());
  }
}

void read_numbers(const toml::table& table, Policy& policy) {
  std::vector<std::string> names;
  for (const Number& n : kNumbers) names.push_back(n.name);
  check_keys(table, names, " in [numbers]");
  for (const Number& n : kNumbers) {
    const toml::node* node = table.get(n.name);
    if (node == nullptr) continue;
    const auto value = node->value<double>();
    check(value && *value >= n.least && *value <= n.most, *node, n.name, " must be a number from ", n.least,
          " to ", n.most, " (", n.about, ")");
    policy.numbers[n.name] = *value;
  }
}

// suites = ["ops"], or suites = { ops = 1000 }: at least once, or at least so often.
void read_demands(const toml::table& table, Policy& policy) {
  const std::vector<std::string> kinds{"suites", "ops", "pairs", "labels", "series", "curves"};
  check_keys(table, kinds, " in [require]");
  for (const auto& key : kinds) {
    const toml::node* node = table.get(key);
    if (node == nullptr) continue;
    const std::string kind = key == "series" ? key : key.substr(0, key.size() - 1);
    if (const auto* names = node->as_array()) {
      for (const auto& name : *names) {
        check(name.is_string(), name, key, " must hold names");
        policy.demands.push_back({kind, *name.value<std::string>(), 1});
      }
      continue;
    }
    check(node->is_table(), *node, key, " must be a list of names, or a table of names and least counts");
    for (const auto& [name, least] : *node->as_table()) {
      check(least.value<int64_t>().value_or(0) > 0, least, name.str(), " must be a count above 0");
      policy.demands.push_back({kind, std::string(name.str()), *least.value<int64_t>()});
    }
  }
}

std::string text_of(const toml::table& mute, const char* key) {
  const toml::node* node = mute.get(key);
  check(node != nullptr && !node->value<std::string>().value_or("").empty(), mute,
        "a mute needs bucket, owner, reason and expires; ", key, " is missing or empty");
  return *node->value<std::string>();
}

std::string day_of(const toml::table& mute) {
  const toml::node* node = mute.get("expires");
  check(node != nullptr, mute, "a mute needs bucket, owner, reason and expires; expires is missing");
  const auto day = node->is_date() ? concat(node->as_date()->get()) : node->value<std::string>().value_or("");
  check(is_day(day), *node, "expires must be a day such as 2027-01-31, not '", day, "'");
  return day;
}

void read_mutes(const toml::node* node, Policy& policy) {
  if (node == nullptr) return;
  check(node->is_array_of_tables(), *node, "write each mute as [[mute]]");
  for (const auto& item : *node->as_array()) {
    const toml::table& mute = *item.as_table();
    check_keys(mute, {"bucket", "owner", "reason", "expires"}, " in [[mute]]");
    policy.mutes.push_back(
        {text_of(mute, "bucket"), text_of(mute, "owner"), text_of(mute, "reason"), day_of(mute)});
  }
}

}  // namespace

const char* name(Effect effect) {
  return kEffects[static_cast<size_t>(effect)];
}

bool is_day(const std::string& text) {
  static const std::regex form("\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])");
  return std::regex_match(text, form);
}

Policy default_policy() {
  Policy policy;
  for (const Number& n : kNumbers) policy.numbers[n.name] = n.value;
  return policy;
}

Policy parse_policy(std::string_view text, const std::string& file) {
  try {
    const toml::table table = toml::parse(text, file);
    check_keys(table, {"version", "effects", "require", "numbers", "mute"}, "");
    const auto* version = table.get("version");
    if (version != nullptr) check(version->value<int64_t>() == 1, *version, "version must be 1");
    Policy policy = default_policy();
    read_effects(table_of(table, "effects"), policy);
    read_numbers(table_of(table, "numbers"), policy);
    read_demands(table_of(table, "require"), policy);
    read_mutes(table.get("mute"), policy);
    return policy;
  } catch (const toml::parse_error& e) {
    throw Error(concat("[policy] ", file, ":", e.source().begin.line, ": ", e.description()));
  }
}

Policy read_policy(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  LOCKSTEP_CHECK(in, "[policy] cannot read ", file, "; pass --policy FILE, or none for the defaults");
  return parse_policy(std::string((std::istreambuf_iterator<char>(in)), {}), file);
}

std::string to_json(const Policy& policy) {
  nlohmann::ordered_json json;
  for (const Rule& rule : rules()) json["effects"][rule.name] = name(effect_of(rule, policy));
  json["numbers"] = policy.numbers;
  json["require"] = nlohmann::json::array();
  for (const Demand& d : policy.demands)
    json["require"].push_back({{"kind", d.kind}, {"name", d.name}, {"least", d.least}});
  json["mute"] = nlohmann::json::array();
  for (const Mute& m : policy.mutes)
    json["mute"].push_back(
        {{"bucket", m.bucket}, {"owner", m.owner}, {"reason", m.reason}, {"expires", m.expires}});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::gate
