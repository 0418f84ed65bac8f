// SPDX-License-Identifier: Apache-2.0
// Judges a timeline of the engine against the recording of the plain run. Two questions are asked of every
// op. Is the rule right by which it was placed: in float64, on ordinary numbers (rule_question.h), and with a
// licence for whatever pends (licence.h)? Are the bits right: those of the plain answer, or those that the
// oracle gets in the declared order on its own slices? What is neither is a mismatch with its place.
//
// One pass. Each op of the timeline is matched with the op of the recording that stands at its place
// (redistributions aside), so every tensor that it reads has a name: the plain memory at that time. The
// oracle keeps its own value for each name (shadow.h) and the engine's digests must be those of its slices.
// Hence the three conditions: (i) each op is judged as it passes, (ii) what it reads must be the oracle's own
// value of that name, (iii) so must the final values.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/lane/numerics.h"
#include "engine/values/timeline.h"
#include "oracle/judge/forgiveness.h"
#include "oracle/plain/evaluate.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

enum class Why { kReductionOrder, kLocalKernel, kOverflow };
const char* name(Why why);  // "reduction order", "local kernel", "overflow"

struct Explanation {
  Why why = Why::kReductionOrder;
  size_t entry = 0;  // of the timeline
  std::string op;
  double difference = 0;  // the largest from the plain answer
};

// Which condition does not hold.
enum class Condition {
  kOp,        // an op's result is neither the plain answer nor the plain kernel's on its slices
  kRule,      // the op on slices is not the op on the whole, whatever the values, or has no licence to be
  kClosed,    // an op reads a value that is not the one that the plain run reads there
  kSequence,  // the ops are not those of the plain run
  kFinal,     // a final value is not what the oracle's own values come to
  kMalformed  // no record of tensors on a mesh
};
const char* name(Condition condition);

struct Mismatch {
  Condition condition = Condition::kOp;
  size_t entry = 0;  // of the timeline; its size for a final value
  std::string op{};
  std::string text{};                          // one sentence
  int64_t position = -1;                       // in the mesh; -1: all, or unknown
  std::vector<int64_t> index{};                // of the element; empty: unknown
  double actual = 0, expected = 0, bound = 0;  // of the element, in float64
};

struct Judgement {
  bool equal = false;                   // every final value is the plain run's in every bit
  std::vector<Explanation> explained;   // why not, in the order of the timeline
  std::optional<Mismatch> mismatch;     // the first; then neither equal nor explained
  size_t ops = 0, redistributions = 0;  // that were judged
  std::map<std::pair<Forgiven, std::string>, int64_t> forgiven;  // kind and op: how often
  std::vector<at::Tensor>
      finals;  // the oracle's own final values, pending sums folded; without a mismatch only
  // Of the recording: those of plain tensors, of which there is one, whoever asks.
  std::unordered_set<const c10::StorageImpl*> outside;
  bool passed() const { return !mismatch; }
};
std::string describe(const Judgement& judgement);

// A tensor that existed before the recording began.
struct Start {
  at::Tensor plain;  // the tensor that the recording read
  SpecPtr spec;      // of `locals`; null: a plain tensor, which every rank holds alike
  std::vector<at::Tensor>
      locals;  // for each position, where the engine's values are not just slices of `plain`
};
// What the engine holds at the end of what the recording holds as `plain`.
struct Final {
  at::Tensor plain;
  TensorRecord record;  // no digests: undefined
  // It may be handed in where the engine has moved it by itself, and not only where an op has put it.
  bool is_gradient = false;
};
// @param numerics the lane of the kernels that both ran.
Judgement check(const Recording& recording, const Timeline& timeline, std::span<const Start> starts,
                std::span<const Final> finals, Lane numerics);

// Of a Case: `finals` has a record for each value of the Program.
Judgement check(const Case& c, const PlainRun& plain, const Timeline& timeline,
                const std::vector<TensorRecord>& finals);

}  // namespace lockstep::oracle
