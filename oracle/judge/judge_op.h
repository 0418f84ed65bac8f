// SPDX-License-Identifier: Apache-2.0
// Judges one entry of a timeline: an op by its two proofs, or a redistribution by its declared order.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/judge/replay.h"
#include "oracle/judge/shadow.h"

namespace lockstep::oracle {

class Places;

// Thrown by what judges an entry; check() adds where.
struct Mismatched {
  Mismatch mismatch;
};
// Of the rank at this position; -1: of all, or nobody knows.
template <class... Parts>
[[noreturn]] void report_mismatch_at(int64_t position, Condition condition, const Parts&... parts) {
  throw Mismatched{{.condition = condition, .text = concat(parts...), .position = position}};
}
template <class... Parts>
[[noreturn]] void report_mismatch(Condition condition, const Parts&... parts) {
  report_mismatch_at(-1, condition, parts...);
}
// One op of the recording and the entry that stands for it.
struct OpInQuestion {
  const RecordedOp& op;
  const TimelineEntry& entry;
  std::vector<Effect> effects;
  std::vector<const TensorRecord*> inputs, outputs;  // of op.inputs and effects; see matching.h
  std::vector<RenditionPtr> renditions;              // of op.inputs
  Lane numerics;
  bool reread = false;  // op has a list of the oracle's own (as_read): the plain run's answer is not to it
};

// Asks both questions. How the entry differs from the plain answer on the same inputs; empty if it has its
// bits. The shadow learns the results. Throws Mismatched.
std::optional<Explanation> judge_op(const OpInQuestion& q, const Recording& recording, Shadow& shadow);
// @param asked the Program's own redistribution: from what it reads to a value of its own; or a sum of
// passes, whose terms the entry reads, one input each, and adds up in its order over passes and ranks. Null:
// one that the engine inserted, or a backward pass: another rendition of the same value.
std::optional<Explanation> judge_redistribution(const TimelineEntry& entry, const Recording& recording,
                                                Shadow& shadow, const RecordedOp* asked = nullptr);

// What the engine's own locals of a tensor come to, whose window this is.
RenditionPtr begun_as(const Start& start, const Window& window, const Recording& recording, Shadow& shadow);
// An op finds what it views or writes where one of its names has it, or moved what it may not. What has no
// elements is nowhere, so that nothing can move it.
void check_stays(const OpInQuestion& q, Places& all);

// The values of a rendition, pending terms folded in their dtype and default order.
at::Tensor folded(const Window& window, const Rendition& rendition, const Shadow& shadow);
// Folded rank by rank, as an input's are: where the vector body of a kernel ends decides which NaN survives.
at::Tensor assembled(const Window& window, const Rendition& rendition, const Spec& spec,
                     const Shadow& shadow);
bool same_bits(const at::Tensor& a, const at::Tensor& b);
// Where they are equal as values, where neither bits nor licences say more: which of two zeros or of two NaNs
// survives may depend on where the vector body of a kernel ends.
at::Tensor same_value(const at::Tensor& a, const at::Tensor& b);
// Whether they differ by no more than what two loops of one kernel that computes in `dtype` round otherwise:
// four units of the last place (of theirs, where that is coarser), another NaN, or the sign of a zero; and a
// unit for each of so many terms of one sign that the loops add.
bool are_near(const at::Tensor& a, const at::Tensor& b, c10::ScalarType dtype, double terms = 0);
// What the op may write to must not be the oracle's own value, and inputs that are one memory must stay one.
Tensors fresh_where_written(const RecordedOp& op, Tensors inputs);
// What `actual` is that is not `plain`, which is what it should be in another order. Where one is finite and
// the other is not, the dtype was left.
Explanation explain(Why why, const at::Tensor& actual, const at::Tensor& plain);

}  // namespace lockstep::oracle
