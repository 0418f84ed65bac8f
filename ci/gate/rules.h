// SPDX-License-Identifier: Apache-2.0
// The rules of the gate. Each is one query over two stores: every row that it gives is a finding.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "ci/gate/policy.h"

namespace lockstep::gate {

// The query gives subject, expected, got, detail and, where there is one, replay. It may read the tables that
// sides.cpp makes (c_*: candidate, b_*: baseline), the stores themselves as main and base, and the policy as
// the tables `number`, `demand`, `mute` and `claim`, and the judged series as `speed`.
struct Rule {
  const char* name;
  int code;         // exit code that a finding stands for
  Effect effect;    // unless the policy says otherwise
  bool blessable;   // a wanted change that `lockstep bless` may accept
  const char* law;  // what holds where the rule is silent
  const char* query;
};

const std::vector<Rule>& rules();
// nullptr if there is none of this name.
const Rule* find_rule(std::string_view name);
// The policy's, else the rule's own.
Effect effect_of(const Rule& rule, const Policy& policy);

// The parts of the list, in its order.
std::span<const Rule> rules_of_measuring();  // rules_measured.cpp: that the candidate measured what it should
std::span<const Rule> rules_of_losses();  // rules_lost.cpp: what the baseline measured and it did not; mutes
std::span<const Rule> rules_of_failures();  // rules_failures.cpp: what fails, or came out worse
std::span<const Rule> rules_of_series();    // rules_series.cpp: what got slower, or cannot tell

}  // namespace lockstep::gate
