// SPDX-License-Identifier: Apache-2.0
// The oracle's tables of what an op's bits may be, held against the engine's table of ops.
#include "oracle/judge/families.h"

#include <gtest/gtest.h>

#include "engine/ops/rules/table.h"

namespace lockstep {
namespace {

// Catches: an op with a rule, also one that only backward or an optimizer calls, of which nobody said whether
// a slice may round otherwise than the whole.
TEST(Families, know_each_op_that_has_a_rule) {
  int64_t asked = 0;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto* entry = find_op(name.name);
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    const auto& overload = name.overload_name;
    const bool writes_given = overload.ends_with("out") || overload == "grad_input";
    if (entry == nullptr || !handle || entry->kind == OpKind::kScalar || writes_given) continue;
    ++asked;
    EXPECT_TRUE(oracle::is_known(oracle::find_operator(*handle)))
        << handle->operator_name()
        << " needs a line in oracle/judge/families.cpp: what its bits may be on a slice";
  }
  EXPECT_GT(asked, 200);
}

}  // namespace
}  // namespace lockstep
