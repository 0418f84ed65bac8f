// SPDX-License-Identifier: Apache-2.0
// The one list of ops.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/rules/record.h"

namespace lockstep {

// Sorted by name.
const std::vector<OpEntry>& op_table();
// Null if there is no rule. User rules come first.
const OpEntry* find_op(std::string_view name);

// torch.distributed.tensor.experimental.register_sharding: rows for an op without a rule, or in place of one.
// The next call of the op follows them, in every thread. @pre no thread is inside an op.
void register_sharding(std::string name, RowsOf rows);
// Takes a user's rule back.
void unregister_sharding(std::string_view name);

// For caches of what was derived from rules: true if user rules have changed since `seen`, which then is now.
// A cache begins with 0.
bool rules_changed(uint64_t& seen);

}  // namespace lockstep
