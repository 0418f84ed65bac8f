// SPDX-License-Identifier: Apache-2.0
// Parts of the engine that a measurement does without.
#pragma once
#include <optional>

#include "engine/ops/rules/table.h"
#include "engine/tensor/cache.h"

namespace lockstep::suites {

struct Switches {
  const char* name;
  bool bypasses = false, remembers = false;
};
inline constexpr Switches kNeither{"neither cache nor bypass"};

// While alive, the current Context's ops go the ways that are on. Law: to the same bits.
class Only {
 public:
  explicit Only(const Switches& on) {
    if (!on.bypasses) no_bypasses_.emplace(std::vector<Bypass>());
    if (!on.remembers) decides_anew_.emplace(*current_context());
  }

 private:
  std::optional<BypassScope> no_bypasses_;
  std::optional<DecidesAnew> decides_anew_;
};

}  // namespace lockstep::suites
