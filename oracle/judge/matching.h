// SPDX-License-Identifier: Apache-2.0
// Which tensors and arguments of a timeline's entry are which of the recorded op.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/values/timeline.h"
#include "oracle/judge/replay.h"
#include "oracle/judge/shadow.h"

namespace lockstep::oracle {

// Whether the engine may hold this value as a plain tensor, which it does not list.
using IsPlain = std::function<bool(const Window&)>;

// For each input of the op, the record of the entry that shows it; null: undefined, or a plain tensor.
// Returns what does not match, or "".
std::string match_inputs(const RecordedOp& op, const TimelineEntry& entry, const IsPlain& is_plain,
                         std::vector<const TensorRecord*>& records);
// For each effect of the op likewise; null: undefined.
std::string match_outputs(const RecordedOp& op, const std::vector<Effect>& effects,
                          const TimelineEntry& entry, std::vector<const TensorRecord*>& records);
// Where a random op draws.
std::string match_offset(const RecordedOp& op, const TimelineEntry& entry);
// The op with the counts that the engine's host has read of a tensor, where the oracle's own value of it is
// that, and the plain run's are the plain run's counts: how many rows each expert has, where another order of
// reductions has decided it for one of them. Empty: there is nothing of the kind.
// @param timeline to the op's entry
std::optional<RecordedOp> as_read(const RecordedOp& op, std::span<const TimelineEntry> timeline,
                                  Shadow& shadow);
// Arguments that are no tensors. Returns the first that differs, or "".
std::string match_arguments(const RecordedOp& op, const TimelineEntry& entry);

// An out= variant as the engine runs it: the functional op, then a copy into each `out`. Empty if it is
// none.
std::vector<RecordedOp> as_functional(const RecordedOp& op, const Recording& recording);

// An op as the engine composes it where ranks share what is reduced. A mean: the sum, divided once; of a
// short dtype in float, then rounded, as the stock kernel does. A vector norm, by its definition: |x| to the
// power of its order, added up, and the root; the greatest or least |x| for the orders inf and -inf, how many
// are not zero for 0. A list of norms is one after the other.
std::vector<RecordedOp> as_parts(const RecordedOp& op, const Recording& recording);

}  // namespace lockstep::oracle
