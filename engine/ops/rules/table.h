// SPDX-License-Identifier: Apache-2.0
// The one list of ops.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context.h"
#include "engine/ops/rules/bypass.h"
#include "engine/ops/rules/record.h"

namespace lockstep {

// Sorted by name.
const std::vector<OpEntry>& op_table();
// Null if there is no rule. Those of RuleScopes come first, then users', then Lockstep's own.
const OpEntry* find_op(std::string_view name);

// torch.distributed.tensor.experimental.register_sharding: rows for an op without a rule, or in place of one.
// The next call of the op follows them, in every thread. @pre no thread is inside an op.
void register_sharding(std::string name, RowsOf rows);
// Takes a user's rule back.
void unregister_sharding(std::string_view name);

// While alive, rows for an op in the current Context alone, in place of its own.
class RuleScope {
 public:
  RuleScope(std::string name, RowsOf rows);

 private:
  Within<std::shared_ptr<const RuleOverrides>> rules_;
  Within<std::shared_ptr<Resolutions>> resolutions_;  // derived anew within, and forgotten after
  Within<std::shared_ptr<Decisions>> decisions_;
};

// A way past propagation for an op that has a rule and gives one new tensor, writes what it is given, or
// reads a truth on the host. Users' are tried as they were registered, and before Lockstep's own; the next
// call of the op follows them, in every thread. Throws Error for an op of another kind. @pre no thread is
// inside an op
void register_bypass(Bypass bypass);
// Takes users' bypasses of these ops back.
void unregister_bypasses(const Bypass::Ops& op);

// While alive, these in the current Context, and no others; none: each op runs by its rule.
class BypassScope {
 public:
  explicit BypassScope(std::vector<Bypass> bypasses);

 private:
  Within<std::shared_ptr<const RuleOverrides>> rules_;
  Within<std::shared_ptr<Resolutions>> resolutions_;
};

// Those that are tried for ops of this record: a scope's; else users', and, where the rule is Lockstep's own,
// Lockstep's.
std::vector<Bypass> bypasses_beside(const OpEntry& entry);
// Whether each rank runs the stock op on what it has, whatever that is.
bool runs_stock(const OpEntry& entry);

// For caches of what was derived from rules: true if user rules have changed since `seen`, which then is now.
// A cache begins with 0.
bool rules_changed(uint64_t& seen);

}  // namespace lockstep
