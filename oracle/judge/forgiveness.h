// SPDX-License-Identifier: Apache-2.0
// What check() forgives a timeline: where it and the plain run need not go op by op, because they reach the
// same values by way of other bookkeeping. One table, each row with its reason; each use is counted.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/values/timeline.h"
#include "oracle/judge/replay.h"

namespace lockstep::oracle {

enum class Forgiven {
  kAlone,    // the op stands on one side only
  kFactory,  // so does one without tensor arguments, and what is computed of its results alone
  kSilent,   // the engine logs it or not: it moves no value
  kVacuous,  // its results have no elements
  kOut,      // an out= variant runs as the functional op and a copy
  kMean,     // a mean runs as the sum and one division
  kNorm,     // a norm runs as the sum of powers and one root, and a list of norms one by one
  kRead,     // counts among the arguments are read from a tensor that another order has decided otherwise
};
// "alone", "factory", "silent", "vacuous", "out", "mean", "norm", "read"
const char* name(Forgiven kind);

inline constexpr const char* kClone = "aten::clone";

struct Forgiveness {
  Forgiven kind;
  std::string_view op;  // empty: any op of the kind
  std::string_view reason;
};
std::span<const Forgiveness> forgiveness();
// The row of this op, or the one of its kind for any op.
const Forgiveness& row_of(Forgiven kind, std::string_view op);

// Why the op may stand on one side only, whatever it reads; empty: it may not.
std::optional<Forgiven> alone(std::string_view op);

// Tensors without elements are equal if their shapes are. Which ops made or wrote them, in which order,
// cannot be told from digests, and need not be.
bool is_vacuous(const TimelineEntry& entry);
bool is_vacuous(const std::vector<Effect>& effects);
bool has_elements(const TensorRecord& record);

// Why the entry may stand in the timeline though the plain run has nothing like it; empty: it may not.
std::optional<Forgiven> passed_over(const TimelineEntry& entry);
// What the plain op's result is a copy of, for which the engine may have a clone of its own; null: it is
// none. libtorch adds nothing to what meets zeros that it knows.
const Window* copied_by(const RecordedOp& op);
// Whether libtorch has not computed it, since it knows it to be zero: its results are ZeroTensors.
bool is_known_zero(const RecordedOp& op);
// The engine's entry may be the functional op of the plain run's out= variant.
bool is_out_of(const RecordedOp& op, const TimelineEntry& entry);
// An out= variant whose results have no elements: its functional op is passed over.
bool fills_nothing(const RecordedOp& op);
// As what the engine may run the plain run's op of which its entry may be the first part: the sum that a mean
// divides; of a norm, or of a list of norms.
std::optional<Forgiven> composed(const RecordedOp& op, const TimelineEntry& entry);

}  // namespace lockstep::oracle
