// SPDX-License-Identifier: Apache-2.0
#include "generators/shrink/edit.h"

#include "generators/program/trial.h"
#include "generators/space/placements.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Arg;
using oracle::Call;
using oracle::Case;
using oracle::Ref;
using oracle::Target;

using Refs = std::vector<Ref>;

bool is_backward(const Call& call) {
  return oracle::runs_backward(call.op);
}

// Renumbers as it goes: old number -> new number, or none where the value is gone.
class Rewriter {
 public:
  Rewriter(const Case& c, const Edit& edit)
      : from_(c), edit_(edit), made_(c), plain_(plain_values(c)), used_(used_values()) {
    made_.program.inputs.clear();
    made_.program.calls.clear();
    made_.placements.clear();
  }

  std::optional<Case> run() {
    for (size_t i = 0; i < from_.program.inputs.size(); ++i) keep_input(i);
    for (const auto& [value, input] : edit_.fresh) add_input(value, input, fresh_target(value));
    auto old = std::ssize(from_.program.inputs);
    auto next = std::ssize(made_.program.inputs);
    for (size_t k = 0; k < from_.program.calls.size(); ++k) {
      const auto& call = from_.program.calls[k];
      if (!is_dropped(k) && !keep_call(k, old, next)) return std::nullopt;
      old += call.results;
    }
    return made_;
  }

 private:
  // A checkpoint goes with its end.
  bool is_dropped(size_t k) const {
    const auto& calls = from_.program.calls;
    if (calls[k].op != oracle::kCheckpointEnd || edit_.dropped_calls.contains(k))
      return edit_.dropped_calls.contains(k);
    while (calls[k].op != oracle::kCheckpoint) --k;
    return edit_.dropped_calls.contains(k);
  }

  // What the calls that stay read, through substitutes.
  std::set<int64_t> used_values() const {
    std::set<int64_t> used;
    for (int64_t i = 0; edit_.keeps_inputs && i < std::ssize(from_.program.inputs); ++i) used.insert(i);
    for (size_t k = 0; k < from_.program.calls.size(); ++k)
      if (!edit_.dropped_calls.contains(k))
        for (const auto ref : references(without_element(k))) used.insert(resolved(ref).id);
    return used;
  }

  Ref resolved(Ref ref) const {
    for (auto found = edit_.substitutes.find(ref.id); found != edit_.substitutes.end();
         found = edit_.substitutes.find(ref.id))
      ref = found->second;
    return ref;
  }

  Call without_element(size_t k) const {
    Call call = from_.program.calls[k];
    const auto found = edit_.dropped_elements.find(k);
    if (found == edit_.dropped_elements.end()) return call;
    for (auto& arg : call.args)
      if (auto* list = std::get_if<Refs>(&arg); list != nullptr && found->second < list->size())
        list->erase(list->begin() + static_cast<ptrdiff_t>(found->second));
    return call;
  }

  // Where a factory or a redistribution put it, if one did.
  Target fresh_target(int64_t value) const {
    int64_t made = std::ssize(from_.program.inputs);
    for (const auto& call : from_.program.calls) {
      if (made == value) {
        if (const auto* placed = oracle::placed_by_factory(call)) return *placed;
        if (call.op == oracle::kRedistribute) return std::get<Target>(call.args[1]);
      }
      made += call.results;
    }
    return plain_[static_cast<size_t>(value)] ? Target{} : replicated(from_.mesh);
  }

  void add_input(int64_t value, oracle::Input input, Target target) {
    numbers_[value] = std::ssize(made_.program.inputs);
    made_.program.inputs.push_back(std::move(input));
    made_.placements.push_back(std::move(target));
  }

  void keep_input(size_t i) {
    if (!used_.contains(static_cast<int64_t>(i))) return;
    auto input = from_.program.inputs[i];
    input.requires_grad = input.requires_grad && !edit_.ungraded.contains(i);
    add_input(static_cast<int64_t>(i), std::move(input), from_.placements[i]);
  }

  bool rewrite(Ref& ref) const {
    if (ref.id < 0) return true;
    const auto found = numbers_.find(resolved(ref).id);
    if (found == numbers_.end()) return false;
    ref.id = found->second;
    return true;
  }

  bool keep_call(size_t k, int64_t old, int64_t& next) {
    Call call = without_element(k);
    for (auto& arg : call.args) {
      if (auto* ref = std::get_if<Ref>(&arg); ref != nullptr && !rewrite(*ref)) return false;
      if (auto* list = std::get_if<Refs>(&arg))
        for (auto& ref : *list)
          if (!rewrite(ref)) return false;
    }
    const auto gone = gone_results(k);
    for (int64_t r = 0; r < call.results; ++r)
      if (!gone.contains(r)) numbers_[old + r] = next++;
    call.results -= std::ssize(gone);
    if (is_backward(call) && call.results == 0) return false;
    made_.program.calls.push_back(std::move(call));
    return true;
  }

  // A backward has one result for each input that still requires grad; a list op one for each element.
  std::set<int64_t> gone_results(size_t k) const {
    std::set<int64_t> gone;
    const auto& call = from_.program.calls[k];
    if (is_backward(call)) {
      int64_t leaf = 0;
      for (size_t i = 0; i < from_.program.inputs.size(); ++i) {
        if (!from_.program.inputs[i].requires_grad) continue;
        if (edit_.ungraded.contains(i) || !used_.contains(static_cast<int64_t>(i))) gone.insert(leaf);
        ++leaf;
      }
      return gone;
    }
    const auto found = edit_.dropped_elements.find(k);
    if (found != edit_.dropped_elements.end() && call.op.starts_with("aten::_foreach_") && call.results > 1)
      gone.insert(static_cast<int64_t>(found->second));
    return gone;
  }

  const Case& from_;
  const Edit& edit_;
  Case made_;
  const std::vector<bool> plain_;
  std::set<int64_t> used_;
  std::map<int64_t, int64_t> numbers_;
};

}  // namespace

std::optional<Case> apply(const Case& c, const Edit& edit) {
  return Rewriter(c, edit).run();
}

}  // namespace lockstep::generators
