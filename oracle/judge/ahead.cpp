// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/ahead.h"

#include <algorithm>
#include <ranges>

#include "oracle/judge/forgiveness.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

// The records in which an op's inputs may be shown.
class Inputs {
 public:
  Inputs(const RecordedOp& op, Shadow& shadow) : op_(op), shadow_(shadow) {}

  bool at(size_t i, const TensorRecord& record) const {
    if (!op_.inputs[i].defined() || record.spec == nullptr) return false;
    return shadow_.find(op_.inputs[i], record) != nullptr || std::ranges::any_of(moved_, [&](const auto& m) {
             return m.first == i && same_record(*m.second, record);
           });
  }
  bool at_any(const TensorRecord& record) const {
    return std::ranges::any_of(places(), [&](size_t i) { return at(i, record); });
  }
  bool at_all(const std::vector<const TensorRecord*>& records) const {
    return std::ranges::all_of(places(),
                               [&](size_t i) { return records[i] == nullptr || at(i, *records[i]); });
  }
  void move(const TensorRecord& from, const TensorRecord& to) {
    for (const size_t i : places())
      if (at(i, from)) moved_.emplace_back(i, &to);
  }

 private:
  std::ranges::iota_view<size_t, size_t> places() const { return {size_t{0}, op_.inputs.size()}; }

  const RecordedOp& op_;
  Shadow& shadow_;
  std::vector<std::pair<size_t, const TensorRecord*>> moved_;
};

}  // namespace

bool begins_with(std::span<const TimelineEntry> rest, const RecordedOp& op, Shadow& shadow,
                 const IsPlain& is_plain) {
  Inputs inputs(op, shadow);
  for (const TimelineEntry& e : rest) {
    if (e.op == kRedistribute) {
      if (e.outputs.size() == 1) inputs.move(e.inputs.at(0), e.outputs[0]);
      continue;
    }
    if (passed_over(e)) continue;
    if (e.op == op.op->name) {
      std::vector<const TensorRecord*> read;
      return match_arguments(op, e).empty() && match_inputs(op, e, is_plain, read).empty() &&
             inputs.at_all(read);
    }
    if (composed(op, e)) return inputs.at_any(e.inputs[0]);
    if (!alone(e.op)) return false;
  }
  return false;
}

bool is_of_another(std::span<const TimelineEntry> rest, const Window& result, const Places& places,
                   const std::function<bool(const TensorRecord&)>& reads) {
  const auto fits = [&](const TimelineEntry& e) { return places.may_become(result, e.outputs[0].spec); };
  return !fits(rest.front()) && std::any_of(rest.begin() + 1, rest.end(), [&](const TimelineEntry& e) {
    return e.op == kClone && e.inputs.size() == 1 && e.outputs.size() == 1 && fits(e) && reads(e.inputs[0]);
  });
}

bool is_copied_on(const RecordedOp& op, const TimelineEntry& entry, std::span<const RecordedOp* const> ops,
                  const Places& places) {
  if (!op.in_backward || op.op->name != kClone || entry.outputs.size() != 1) return false;
  const auto is_copy = [](const RecordedOp* other, bool in_backward) {
    return other != nullptr && other->in_backward == in_backward && other->op->name == kClone &&
           other->inputs.at(0).defined();
  };
  return std::ranges::any_of(ops, [&](const RecordedOp* gradient) {
    if (!is_copy(gradient, true) || gradient->inputs[0] != op.inputs.at(0)) return false;
    return std::ranges::any_of(ops, [&](const RecordedOp* other) {
      return is_copy(other, false) && other->inputs[0].id() == gradient->results.at(0).id() &&
             places.may_become(other->results.at(0), entry.outputs[0].spec);
    });
  });
}

}  // namespace lockstep::oracle
