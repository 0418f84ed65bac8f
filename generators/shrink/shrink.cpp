// SPDX-License-Identifier: Apache-2.0
#include "generators/shrink/shrink.h"

#include <algorithm>
#include <numeric>

#include "generators/program/trial.h"
#include "generators/shrink/edit.h"
#include "generators/space/placements.h"
#include "generators/space/shapes.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Case;
using oracle::Ref;

// Memory that nobody wrote is other memory in each run: who makes it has to write it next.
bool reads_unwritten(const oracle::Program& program) {
  const auto first = first_results(program);
  for (size_t k = 0; k < program.calls.size(); ++k) {
    if (program.calls[k].op.find("empty") == std::string::npos) continue;
    if (k + 1 == program.calls.size()) return true;
    const auto& next = program.calls[k + 1];
    const bool fills = next.op == "aten::zero_" || next.op == "aten::fill_.Scalar";
    if (!fills || references(next)[0].id != first[k]) return true;
  }
  return false;
}

// Keeps what passes; the trial on plain tensors is the costly check, so it comes last.
class Sieve {
 public:
  explicit Sieve(const Case& from) : from_(complexity(from)) {}

  void offer(const std::optional<Case>& made) {
    if (!made || complexity(*made) >= from_ || reads_unwritten(made->program)) return;
    try {
      oracle::validate(*made);
    } catch (const std::exception&) {
      return;
    }
    if (trial(made->program)) kept_.push_back(*made);
  }
  // The case edited, and where the failure goes by the placements of all inputs, with those that only the
  // dropped calls read.
  void offer(const Case& c, Edit edit) {
    const auto bare = apply(c, edit);
    offer(bare);
    edit.keeps_inputs = true;
    const auto whole = apply(c, edit);
    if (whole && (!bare || whole->program.inputs.size() != bare->program.inputs.size())) offer(whole);
  }
  std::vector<Case> take() { return std::move(kept_); }

 private:
  std::vector<int64_t> from_;
  std::vector<Case> kept_;
};

// The calls that call k depends on, those that write to what it reads included.
Edit slice_before(const Case& c, size_t k) {
  const auto& calls = c.program.calls;
  const auto first = first_results(c.program);
  std::set<int64_t> needed;
  std::set<size_t> kept = {k};
  for (const auto ref : references(calls[k])) needed.insert(ref.id);
  for (size_t i = k; i-- > 0;) {
    const auto written = written_by(calls[i]);
    bool wanted =
        std::any_of(written.begin(), written.end(), [&](Ref ref) { return needed.contains(ref.id); });
    for (int64_t r = 0; r < calls[i].results; ++r) wanted = wanted || needed.contains(first[i] + r);
    if (!wanted) continue;
    kept.insert(i);
    for (const auto ref : references(calls[i])) needed.insert(ref.id);
  }
  Edit edit;
  for (size_t i = 0; i < calls.size(); ++i)
    if (!kept.contains(i)) edit.dropped_calls.insert(i);
  return edit;
}

// The input that a redistribution reads, placed as its result is; as it was if no input is read, or if the
// integer lane's bound might not cover the terms.
Case placed_as_result(Case c, const oracle::Call& call) {
  const auto operand = static_cast<size_t>(references(call)[0].id);
  const auto& target = std::get<oracle::Target>(call.args[1]);
  if (operand < c.placements.size() && !(c.integer_lane && has_partial(target)))
    c.placements[operand] = target;
  return c;
}

// The inputs that a backward takes for gradients of a value, in this shape.
Case with_gradients_shaped(Case c, int64_t value, const std::vector<int64_t>& shape) {
  for (const auto& call : c.program.calls) {
    if (!oracle::runs_backward(call.op)) continue;
    const auto outputs = oracle::refs_of(call.args[0]), gradients = oracle::refs_of(call.args[1]);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].id != value || gradients[i].id >= std::ssize(c.program.inputs)) continue;
      auto& gradient = c.program.inputs[static_cast<size_t>(gradients[i].id)];
      gradient.shape = shape;
      gradient.memory_order.clear();
    }
  }
  return c;
}

// Without call k, whose one result is its first operand in another shape: that stands for it.
void without_view(const Case& c, size_t k, const std::vector<at::Tensor>& values, Sieve& sieve) {
  const auto result = first_results(c.program)[k];
  const auto refs = references(c.program.calls[k]);
  if (c.program.calls[k].results != 1 || refs.empty() || refs[0].id < 0) return;
  const auto &whole = values[static_cast<size_t>(refs[0].id)], &view = values[static_cast<size_t>(result)];
  if (!whole.defined() || !view.defined() || whole.scalar_type() != view.scalar_type() ||
      whole.numel() != view.numel() || whole.sizes() == view.sizes())
    return;
  Edit edit;
  edit.dropped_calls = {k};
  edit.substitutes[result] = refs[0];
  sieve.offer(with_gradients_shaped(c, result, whole.sizes().vec()), edit);
}

// New values, of a kind that every dtype has.
void redraw(const Case& c, oracle::Input& input) {
  input.values = {};
  if (!c10::isFloatingType(input.dtype) || c.integer_lane)
    input.values = {.kind = oracle::ValueKind::kIntegers, .low = 0, .high = 1};
}

// The inputs that a call writes with new values, which need not be the plain ones that its writing changed.
Case with_written_redrawn(Case c, const oracle::Call& call) {
  for (const auto ref : written_by(call))
    if (ref.id >= 0 && ref.id < std::ssize(c.program.inputs))
      redraw(c, c.program.inputs[static_cast<size_t>(ref.id)]);
  return c;
}

// Without call k: nothing reads its results, or an operand or a new input of the same kind stands for each;
// what it writes stays as it is, or is another.
void without_call(const Case& c, size_t k, const std::vector<at::Tensor>& values, Sieve& sieve) {
  const auto& call = c.program.calls[k];
  const auto first = first_results(c.program)[k];
  Edit plain, operands, inputs;
  plain.dropped_calls = operands.dropped_calls = inputs.dropped_calls = {k};
  for (int64_t r = first; r < first + call.results; ++r) {
    const auto& result = values[static_cast<size_t>(r)];
    if (!result.defined()) continue;
    for (const auto ref : references(call)) {
      if (ref.id < 0) continue;
      const auto& operand = values[static_cast<size_t>(ref.id)];
      if (!operand.defined() || operand.sizes() != result.sizes() ||
          operand.scalar_type() != result.scalar_type())
        continue;
      operands.substitutes[r] = ref;
      break;
    }
    oracle::Input input{.dtype = result.scalar_type(), .shape = result.sizes().vec()};
    redraw(c, input);
    inputs.fresh[r] = input;
  }
  sieve.offer(c, plain);
  if (!written_by(call).empty()) sieve.offer(with_written_redrawn(c, call), plain);
  if (!operands.substitutes.empty()) sieve.offer(c, operands);
  if (call.op == "lockstep::redistribute")
    for (const auto& edit : {operands, plain}) sieve.offer(placed_as_result(c, call), edit);
  sieve.offer(c, inputs);
  for (auto& [value, input] : inputs.fresh) input.values = {.kind = oracle::ValueKind::kOnes};
  sieve.offer(c, inputs);
}

void fewer_calls(const Case& c, const std::vector<at::Tensor>& values, Sieve& sieve) {
  const auto count = c.program.calls.size();
  for (size_t k = 0; k < count; ++k) sieve.offer(c, slice_before(c, k));
  for (size_t k = count; k-- > 0;) without_call(c, k, values, sieve);
  for (size_t k = count; k-- > 0;) without_view(c, k, values, sieve);
}

void fewer_elements(const Case& c, Sieve& sieve) {
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    size_t longest = 0;
    for (const auto& arg : c.program.calls[k].args)
      if (const auto* list = std::get_if<std::vector<Ref>>(&arg)) longest = std::max(longest, list->size());
    for (size_t e = longest; e-- > 0 && longest > 1;) {
      Edit edit;
      edit.dropped_elements[k] = e;
      sieve.offer(c, edit);
    }
  }
}

void fewer_leaves(const Case& c, Sieve& sieve) {
  for (size_t i = 0; i < c.program.inputs.size(); ++i) {
    if (!c.program.inputs[i].requires_grad) continue;
    Edit edit;
    edit.ungraded.insert(i);
    sieve.offer(apply(c, edit));
  }
}

}  // namespace

std::vector<Case> candidates(const Case& c) {
  Sieve sieve(c);
  const auto values = trial(c.program);
  if (values) fewer_calls(c, *values, sieve);
  for (const auto& simpler : simpler_meshes(c)) sieve.offer(simpler);
  fewer_elements(c, sieve);
  fewer_leaves(c, sieve);
  sieve.offer(apply(c, {}));  // inputs that nothing reads
  for (const auto& simpler : simpler_placements(c)) sieve.offer(simpler);
  for (const auto& simpler : smaller_shapes(c)) sieve.offer(simpler);
  for (const auto& simpler : simpler_values(c)) sieve.offer(simpler);
  return sieve.take();
}

Shrunk shrink(const Case& start, const std::function<bool(const Case&)>& still_fails, int64_t budget,
              Simpler simpler, const std::function<void(const Case&)>& improved) {
  Shrunk result{.smallest = start};
  for (bool found = true; found;) {
    found = false;
    for (auto& candidate : simpler(result.smallest)) {
      if (result.tried == budget) return result;
      ++result.tried;
      if (!still_fails(candidate)) continue;
      result.smallest = std::move(candidate);
      ++result.accepted;
      improved(result.smallest);
      found = true;
      break;
    }
  }
  result.minimal = true;
  return result;
}

}  // namespace lockstep::generators
