// SPDX-License-Identifier: Apache-2.0
// Propagation: which row an op takes along each mesh dimension, hence how its inputs must be placed and how
// its outputs come out. Pure: looks at Specs and arguments, never at values.
#pragma once
#include <c10/util/SmallVector.h>

#include "engine/context/activity.h"
#include "engine/layout/route.h"
#include "engine/ops/resolve.h"

namespace lockstep {

// Of the operands of one call: most ops have few, which then need no memory of their own.
template <class T>
using PerOperand = c10::SmallVector<T, 4>;

// The tensors of one call, as parsed from the stack.
struct Operands {
  PerOperand<SpecPtr> specs;  // null: plain or undefined
  PerOperand<TensorMeta> metas;
  PerOperand<bool> mutated;  // for each tensor
  PerOperand<size_t> arg;    // the argument it belongs to
};

struct Decision {
  std::vector<Route> routes;      // for each input; no steps: stays
  std::vector<SpecPtr> inputs;    // after the routes; null: plain or undefined
  std::vector<SpecPtr> outputs;   // null: undefined
  std::vector<c10::IValue> args;  // constants; tensors are None
  OpCall call;                    // args spans the above
  bool redistributes = false;
};

// Which tensors may be moved that a caller might see through another name.
struct MayMove {
  bool viewed = false;   // the input of a view
  bool written = false;  // what an in-place op writes to: the tensor itself moves
  bool operator==(const MayMove&) const = default;
};

// @param outputs metadata of the results of the op on global tensors, flattened.
// @param candidates if given, gets the legal rows along each mesh dimension, in the order in which they are
// chosen. Law: those that are chosen are what is decided.
// Throws Refused if no row is legal without moving what must stay.
std::shared_ptr<const Decision> decide(const c10::OperatorHandle& op, const Resolved& resolved,
                                       const Operands& operands, std::vector<c10::IValue> args,
                                       const std::vector<TensorMeta>& outputs, MayMove may_move,
                                       Candidates* candidates = nullptr);

// For list ops: decides for each element, and joins. Candidates are those of elements that move.
std::shared_ptr<const Decision> decide_list(const c10::OperatorHandle& op, const Resolved& resolved,
                                            const Operands& operands, std::vector<c10::IValue> args,
                                            const std::vector<TensorMeta>& outputs,
                                            Candidates* candidates = nullptr);

// The rows that are legal for a call along one mesh dimension: the rule's, the all-Replicate row, interleaved
// copies.
Rows legal_rows(const OpEntry& entry, const OpCall& call);

}  // namespace lockstep
