// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/policy.h"

#include <toml++/toml.h>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

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
    {"alpha", 0.01, 1e-9, 0.5, "chance that any timed series of a judgement alarms without reason"},
    {"effect_floor", 0.02, 0, 1, "smallest change of a timed series that counts"},
    {"largest_detectable", 0.1, 0.001, 1, "a series that cannot tell a change of this size is not measured"},
};

class Reader {
 public:
  Reader(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

  Policy read() {
    check_keys(table_, {"version", "effects", "require", "numbers", "mute"}, "");
    if (const auto* version = table_.get("version"))
      check(version->value<int64_t>() == 1, *version, "version must be 1");
    read_effects();
    read_numbers();
    read_demands();
    read_mutes();
    return std::move(policy_);
  }

 private:
  template <class Node>
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw Error(concat("[policy] ", file_, ":", node.source().begin.line, ": ", what));
  }
  template <class Node>
  void check(bool condition, const Node& node, const std::string& what) const {
    if (!condition) fail(node, what);
  }

  void check_keys(const toml::table& table, const std::vector<std::string>& known,
                  const std::string& where) const {
    for (const auto& [key, node] : table) {
      if (std::find(known.begin(), known.end(), std::string(key.str())) != known.end()) continue;
      std::string list;
      for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
      fail(node, concat("unknown key '", key.str(), "'", where, "; there are ", list));
    }
  }

  const toml::table& table_of(const char* key) const {
    static const toml::table empty;
    const toml::node* node = table_.get(key);
    if (node == nullptr) return empty;
    check(node->is_table(), *node, concat(key, " must be a table: [", key, "]"));
    return *node->as_table();
  }

  void read_effects() {
    std::vector<std::string> names;
    for (const Rule& r : rules()) names.push_back(r.name);
    const toml::table& table = table_of("effects");
    check_keys(table, names, " in [effects]");
    for (const auto& [rule, node] : table) {
      const auto word = node.value<std::string>().value_or("");
      const auto found = std::find(kEffects.begin(), kEffects.end(), word);
      check(found != kEffects.end(), node,
            concat(rule.str(), " must be \"block\", \"warn\", \"note\" or \"off\""));
      policy_.effects[std::string(rule.str())] = static_cast<Effect>(found - kEffects.begin());
    }
  }

  void read_numbers() {
    policy_.numbers = default_policy().numbers;
    std::vector<std::string> names;
    for (const Number& n : kNumbers) names.push_back(n.name);
    const toml::table& table = table_of("numbers");
    check_keys(table, names, " in [numbers]");
    for (const Number& n : kNumbers) {
      const toml::node* node = table.get(n.name);
      if (node == nullptr) continue;
      const auto value = node->value<double>();
      check(value && *value >= n.least && *value <= n.most, *node,
            concat(n.name, " must be a number from ", n.least, " to ", n.most, " (", n.about, ")"));
      policy_.numbers[n.name] = *value;
    }
  }

  // suites = ["ops"], or suites = { ops = 1000 }: at least once, or at least so often.
  void read_demands() {
    const toml::table& table = table_of("require");
    const std::pair<const char*, const char*> kinds[] = {{"suites", "suite"},  {"ops", "op"},
                                                         {"pairs", "pair"},    {"labels", "label"},
                                                         {"series", "series"}, {"curves", "curve"}};
    check_keys(table, {"suites", "ops", "pairs", "labels", "series", "curves"}, " in [require]");
    for (const auto& [key, kind] : kinds) {
      const toml::node* node = table.get(key);
      if (node == nullptr) continue;
      if (const auto* names = node->as_array()) {
        for (const auto& name : *names) {
          check(name.is_string(), name, concat(key, " must hold names"));
          policy_.demands.push_back({kind, *name.value<std::string>(), 1});
        }
      } else {
        check(node->is_table(), *node,
              concat(key, " must be a list of names, or a table of names and least counts"));
        for (const auto& [name, least] : *node->as_table()) {
          check(least.value<int64_t>().value_or(0) > 0, least,
                concat(name.str(), " must be a count above 0"));
          policy_.demands.push_back({kind, std::string(name.str()), *least.value<int64_t>()});
        }
      }
    }
  }

  std::string text_of(const toml::table& mute, const char* key) const {
    const toml::node* node = mute.get(key);
    check(node != nullptr && !node->value<std::string>().value_or("").empty(), mute,
          concat("a mute needs bucket, owner, reason and expires; ", key, " is missing or empty"));
    return *node->value<std::string>();
  }

  std::string day_of(const toml::table& mute) const {
    const toml::node* node = mute.get("expires");
    check(node != nullptr, mute, "a mute needs bucket, owner, reason and expires; expires is missing");
    std::ostringstream day;
    if (node->is_date())
      day << node->as_date()->get();
    else
      day << node->value<std::string>().value_or("");
    check(is_day(day.str()), *node,
          concat("expires must be a day such as 2027-01-31, not '", day.str(), "'"));
    return day.str();
  }

  void read_mutes() {
    const toml::node* node = table_.get("mute");
    if (node == nullptr) return;
    check(node->is_array_of_tables(), *node, "write each mute as [[mute]]");
    for (const auto& item : *node->as_array()) {
      const toml::table& mute = *item.as_table();
      check_keys(mute, {"bucket", "owner", "reason", "expires"}, " in [[mute]]");
      policy_.mutes.push_back(
          {text_of(mute, "bucket"), text_of(mute, "owner"), text_of(mute, "reason"), day_of(mute)});
    }
  }

  const toml::table& table_;
  const std::string& file_;
  Policy policy_;
};

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
    return Reader(table, file).read();
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
  for (const Rule& rule : rules()) {
    const auto chosen = policy.effects.find(rule.name);
    json["effects"][rule.name] = name(chosen == policy.effects.end() ? rule.effect : chosen->second);
  }
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
