// SPDX-License-Identifier: Apache-2.0
// The one list of ops and their rules. In-place, out and foreach variants follow from the functional op.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/rules/local.h"
#include "engine/ops/rules/row.h"

namespace lockstep {

enum class OpKind {
  kValue,   // a new tensor
  kView,    // aliases its input, which therefore never moves
  kRandom,  // draws from the single device's stream
  kScalar,  // reads a value on the host: inputs are made whole, ranks must agree
};

struct OpEntry {
  std::string name;  // without overload: "aten::add"
  RowsOf rows;
  OpKind kind = OpKind::kValue;
  LocalRun run = local::stock;
  bool own_interleaved = false;  // the rows name InterleavedShards themselves
};

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
