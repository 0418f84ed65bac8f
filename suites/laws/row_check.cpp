// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/row_check.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/judge/families.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/recording.h"
#include "oracle/program/values.h"
#include "suites/laws/sample_call.h"

namespace lockstep::suites {
namespace {

// The tensors of the call of `op`, flattened in schema order: the input of the case that each comes from,
// redistributions looked through; -1: undefined. And how many each list has, by argument.
struct Operands {
  std::vector<int64_t> sources;
  std::vector<std::pair<size_t, int64_t>> lists;
};

Operands operands_of(const oracle::Case& c, const std::string& op) {
  std::vector<int64_t> source;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) source.push_back(static_cast<int64_t>(i));
  for (const auto& call : c.program.calls) {
    Operands found;
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (const auto* ref = std::get_if<oracle::Ref>(&call.args[i]))
        found.sources.push_back(source.at(static_cast<size_t>(ref->id)));
      if (const auto* list = std::get_if<std::vector<oracle::Ref>>(&call.args[i])) {
        found.lists.emplace_back(i, std::ssize(*list));
        for (const auto& ref : *list)
          found.sources.push_back(ref.id < 0 ? -1 : source.at(static_cast<size_t>(ref.id)));
      }
    }
    if (oracle::stem(call.op) == op) return found;
    LOCKSTEP_CHECK(call.op == "lockstep::redistribute" && found.sources.size() == 1 && found.sources[0] >= 0,
                   "[rules] the operands of ", op, " are not inputs of the case");
    source.push_back(found.sources[0]);
  }
  throw Error(concat("[rules] the case does not call ", op));
}

// The elements that are NaN; zero elsewhere.
at::Tensor nans(const at::Tensor& t) {
  return at::where(at::isnan(t), t, at::zeros({}, t.options()));
}

// Rounding makes other numbers, never another zero or NaN: those are as exact as integers are.
bool may_be_rounding(const at::Tensor& expected, const at::Tensor& actual) {
  const auto d = oracle::compare(expected, actual);
  if (d.equal()) return true;
  const bool of_numbers = d.bits == oracle::BitClass::kUlp || d.bits == oracle::BitClass::kValue;
  return of_numbers && at::isFloatingType(expected.scalar_type()) &&
         oracle::compare(nans(expected), nans(actual)).equal();
}

}  // namespace

RowCheck::RowCheck(const oracle::Case& c, const SampleCall& sample)
    : case_(c), sample_(sample), op_(oracle::find_operator(sample.logged->op)) {
  const auto& call = sample.call;
  const auto operands = operands_of(c, call.name);
  for (const auto source : operands.sources) {
    defined_.push_back(source >= 0);
    if (source >= 0) sources_.push_back(source);
  }
  LOCKSTEP_CHECK(sources_.size() == call.inputs.size(), "[rules] ", call.name, " reads ", call.inputs.size(),
                 " tensors, and the case names ", sources_.size());
  tensors_per_arg_ = sample.logged->tensors_per_arg;  // of a list, those that are defined
  for (const auto& [arg, size] : operands.lists) tensors_per_arg_.at(arg) = size;
  unplaced_ = plain(Placements(sources_.size(), Replicate{}));
  LOCKSTEP_CHECK(unplaced_.answers.size() == call.outputs.size(), "[rules] ", call.name,
                 " has undefined results");
}

oracle::Case RowCheck::placed(size_t input, const Placement& p) const {
  auto one = case_;
  one.placements[static_cast<size_t>(sources_[input])] = {{p}, {}};
  return one;
}

torch::jit::Stack RowCheck::stack_of(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> all;
  size_t next = 0;
  for (const bool defined : defined_) all.push_back(defined ? tensors[next++] : at::Tensor());
  return oracle::stack_of(op_, sample_.logged->args, tensors_per_arg_, all);
}

std::vector<Placement> RowCheck::candidates(size_t input) const {
  std::vector<Placement> all{Replicate{}};
  const auto& meta = sample_.call.inputs[input];
  for (int64_t d = 0; d < meta.ndim(); ++d) all.emplace_back(Shard{d});
  if (at::isFloatingType(meta.dtype)) all.emplace_back(Partial{});
  return all;
}

// Of inputs so placed: terms that round, or a product of them that is zero, come to another whole tensor than
// they were made of.
RowCheck::Plain RowCheck::plain(const Placements& inputs) const {
  Plain result;
  result.recording.device = case_.mesh.device_type();
  for (size_t i = 0; i < sources_.size(); ++i)
    result.inputs.push_back(
        oracle::on_mesh(case_.mesh, oracle::make_global(placed(i, inputs[i]), sources_[i])));
  auto stack = stack_of(result.inputs);
  const oracle::RecordingScope recorder(result.recording);
  result.answers = oracle::call_boxed(op_, stack);
  recorder.check();
  return result;
}

// The locals of each input are made by the oracle, as those of a Program's inputs.
RowCheck::Held RowCheck::place(const Row& row, const Plain& whole) const {
  Held held;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto one = placed(i, row.inputs[i]);
    held.locals.push_back(oracle::on_mesh(case_.mesh, oracle::make_locals(one, sources_[i])));
    held.in.push_back(std::make_shared<const Spec>(oracle::spec_of(one, sources_[i])));
  }
  for (size_t k = 0; k < whole.answers.size(); ++k) {
    const auto& answer = whole.answers[k];
    held.out.push_back(
        std::make_shared<const Spec>(case_.mesh, Placements{row.outputs[k]}, answer.sizes().vec(),
                                     contiguous_strides(answer.sizes().vec()), answer.scalar_type()));
  }
  return held;
}

// False if a kernel refuses its slices.
bool RowCheck::run(Held& held) const {
  held.results.resize(held.out.size());
  try {
    for (int64_t position = 0; position < case_.mesh.size(); ++position) {
      std::vector<at::Tensor> mine;
      for (const auto& l : held.locals) mine.push_back(l[static_cast<size_t>(position)]);
      auto stack = stack_of(mine);
      sample_.entry->run[case_.numerics]({op_.handle, sample_.call, held.in, held.out, position}, stack);
      std::vector<at::Tensor> got;
      for (const auto& value : stack) oracle::append_tensors(got, value);
      for (size_t k = 0; k < held.results.size(); ++k) held.results[k].push_back(got.at(k));
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// By the oracle's two proofs, of a timeline that holds this op alone. A row of nonsense may ask of a kernel
// what it refuses.
bool RowCheck::explained(const Plain& whole, const Held& held) const {
  auto entry = *sample_.logged;
  std::vector<oracle::Start> starts;
  for (size_t i = 0; i < sources_.size(); ++i) {
    entry.inputs[i] = record(held.in[i], held.locals[i]);
    starts.push_back({whole.inputs[i], held.in[i],
                      held.in[i]->has_partial() ? held.locals[i] : std::vector<at::Tensor>()});
  }
  std::vector<oracle::Final> finals;
  for (size_t k = 0; k < held.out.size(); ++k) {
    entry.outputs[k] = record(held.out[k], held.results[k]);
    finals.push_back({whole.answers[k], entry.outputs[k]});
  }
  try {
    return oracle::check(whole.recording, {entry}, starts, finals, case_.numerics).passed();
  } catch (const std::exception&) {
    return false;
  }
}

bool RowCheck::holds(const Row& row) const {
  const Plain whole = plain(row.inputs);
  auto held = place(row, whole);
  if (!run(held)) return false;
  const auto* family = oracle::find_family(op_.name);
  const bool zeros_differ = family != nullptr && family->zero_sign;
  bool equal = true;
  for (size_t k = 0; k < held.results.size(); ++k) {
    const auto assembly = oracle::assemble(held.results[k], *held.out[k]);
    if (assembly.disagreement || !assembly.global.defined()) return false;
    const auto expected = whole.answers[k].contiguous(), actual = assembly.global.contiguous();
    equal = equal && oracle::compare(expected, actual).equal();
    if (!zeros_differ && !may_be_rounding(expected, actual)) return false;
  }
  return equal || (!case_.integer_lane && explained(whole, held));
}

std::vector<Placement> RowCheck::true_outputs(const Placements& inputs) const {
  if (outputs() != 1) return {};
  const auto& answer = unplaced_.answers[0];
  std::vector<Placement> tries{Replicate{}}, found;
  if (at::isFloatingType(answer.scalar_type())) tries.emplace_back(Partial{});
  for (int64_t d = 0; d < answer.dim(); ++d) tries.emplace_back(Shard{d});
  for (const auto& candidate : tries)
    if (holds({.outputs = {candidate}, .inputs = inputs})) found.push_back(candidate);
  return found;
}

}  // namespace lockstep::suites
