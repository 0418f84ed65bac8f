// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/rules.h"

#include <algorithm>

namespace lockstep::gate {

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list;
    for (const auto& part : {rules_of_measuring(), rules_of_losses(), rules_of_failures(), rules_of_series()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

const Rule* find_rule(std::string_view name) {
  const auto found =
      std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.name == name; });
  return found == rules().end() ? nullptr : &*found;
}

Effect effect_of(const Rule& rule, const Policy& policy) {
  const auto chosen = policy.effects.find(rule.name);
  return chosen == policy.effects.end() ? rule.effect : chosen->second;
}

}  // namespace lockstep::gate
