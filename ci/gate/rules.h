// SPDX-License-Identifier: Apache-2.0
// The rules of the gate. Each is one query over two stores: every row that it gives is a finding.
#pragma once
#include <span>
#include <string_view>

#include "ci/gate/policy.h"

namespace lockstep::gate {

// The query gives the columns subject, expected, got, detail, replay. It may read the tables that sides.cpp
// makes (c_*: candidate, b_*: baseline), the stores themselves as main and base, and the policy as the tables
// `number`, `demand`, `mute` and `claim`, and the judged series as `speed`.
struct Rule {
  const char* name;
  int code;         // exit code that a finding stands for
  Effect effect;    // unless the policy says otherwise
  bool blessable;   // a wanted change that `lockstep bless` may accept
  const char* law;  // what holds where the rule is silent
  const char* query;
};

std::span<const Rule> rules();
// nullptr if there is none of this name.
const Rule* find_rule(std::string_view name);

}  // namespace lockstep::gate
