// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/same_form.h"

#include "oracle/judge/forgiveness.h"
#include "oracle/judge/matching.h"
#include "oracle/judge/replay.h"
#include "oracle/judge/shadow.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

constexpr const char* kMemory = "aten::new_empty_strided";
constexpr const char* kCopy = "aten::copy_";

bool is_clone(const TimelineEntry& made, const TimelineEntry& copy) {
  return made.op == kMemory && copy.op == kCopy && made.outputs.size() == 1 && copy.inputs.size() == 2 &&
         copy.outputs.size() == 1 && same_record(made.outputs[0], copy.inputs[0]) && copy.inputs[1].spec &&
         copy.inputs[1].spec->dtype() == copy.inputs[0].spec->dtype();
}

bool is_clone(const RecordedOp& made, const RecordedOp& copy) {
  return made.op->name == kMemory && copy.op->name == kCopy && copy.inputs.at(0) == made.results.at(0) &&
         copy.inputs.at(1).defined() && copy.inputs[1].dtype == copy.inputs[0].dtype;
}

// What a clone reads, in a timeline's form or a recording's; how each says what it makes is its own.
template <class Form>
Form clone_of(const Form& copy) {
  Form clone;
  clone.args = {c10::IValue(), c10::IValue()};
  clone.tensors_per_arg = {1, -1};
  clone.inputs = {copy.inputs[1]};
  return clone;
}

}  // namespace

Timeline in_one_form(const Timeline& timeline) {
  Timeline result;
  for (const TimelineEntry& entry : timeline) {
    size_t made = result.size();  // but for what moved the source meanwhile
    while (made > 0 && result[made - 1].op == kRedistribute) --made;
    if (made > 0 && is_clone(result[made - 1], entry)) {
      result.erase(result.begin() + static_cast<ptrdiff_t>(made) - 1);
      TimelineEntry& clone = result.emplace_back(clone_of(entry));
      clone.op = kClone;
      clone.outputs = {entry.outputs[0]};
      clone.aliases = {-1};
      continue;
    }
    TimelineEntry& same = result.emplace_back(entry);
    if (same.op != kReshapeAlias) continue;
    const size_t count = find_operator(kView).args.size();
    same.op = kView;
    same.args.resize(count);
    same.tensors_per_arg.resize(count);
  }
  return result;
}

std::vector<const RecordedOp*> in_one_form(const std::vector<RecordedOp>& ops, std::deque<RecordedOp>& made) {
  std::vector<const RecordedOp*> result;
  for (const RecordedOp& op : ops) {
    const bool joined = !result.empty() && result.back() != nullptr && is_clone(*result.back(), op);
    if (!joined) {
      result.push_back(&op);
      continue;
    }
    RecordedOp& clone = made.emplace_back(clone_of(op));
    clone.op = &find_operator(kClone);
    clone.results = {effects(op).at(0).window};
    clone.inner = op.inner;
    clone.in_backward = op.in_backward;
    result.back() = nullptr;
    result.push_back(&clone);
  }
  return result;
}

}  // namespace lockstep::oracle
