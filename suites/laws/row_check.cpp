// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/row_check.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/recording.h"
#include "oracle/program/values.h"
#include "suites/laws/sample_call.h"

namespace lockstep::suites {
namespace {

// Inputs that a call's tensors come from, flattened in schema order; -1: undefined. Redistributions are
// looked through.
std::vector<int64_t> operands_of(const oracle::Case& c, const std::string& op) {
  std::vector<int64_t> source;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) source.push_back(static_cast<int64_t>(i));
  for (const auto& call : c.program.calls) {
    std::vector<int64_t> found;
    for (const auto& arg : call.args) {
      if (const auto* ref = std::get_if<oracle::Ref>(&arg))
        found.push_back(source.at(static_cast<size_t>(ref->id)));
      if (const auto* list = std::get_if<std::vector<oracle::Ref>>(&arg))
        for (const auto& ref : *list)
          found.push_back(ref.id < 0 ? -1 : source.at(static_cast<size_t>(ref.id)));
    }
    if (stem(call.op) == op) return found;
    LOCKSTEP_CHECK(call.op == "lockstep::redistribute" && found.size() == 1 && found[0] >= 0,
                   "[rules] the operands of ", op, " are not inputs of the case");
    source.push_back(found[0]);
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

// The stack of one rank: the logged arguments with the rank's tensors in their places.
torch::jit::Stack stack_of(const c10::OperatorHandle& op, const TimelineEntry& logged,
                           const std::vector<at::Tensor>& tensors) {
  torch::jit::Stack stack;
  size_t next = 0;
  for (size_t i = 0; i < logged.args.size(); ++i) {
    const int64_t count = logged.tensors_per_arg[i];
    const auto& type = *op.schema().arguments()[i].type();
    if (count < 0) {
      stack.push_back(logged.args[i]);
    } else if (type.kind() == c10::TypeKind::ListType) {
      if (type.containedType(0)->kind() == c10::TypeKind::OptionalType) {
        c10::List<std::optional<at::Tensor>> list;
        for (int64_t k = 0; k < count; ++k, ++next)
          list.push_back(tensors[next].defined() ? std::optional(tensors[next]) : std::nullopt);
        stack.emplace_back(list);
      } else {
        c10::List<at::Tensor> list;
        for (int64_t k = 0; k < count; ++k) list.push_back(tensors[next++]);
        stack.emplace_back(list);
      }
    } else if (count == 1) {
      stack.emplace_back(tensors[next++]);
    } else {
      stack.emplace_back();
    }
  }
  return stack;
}

std::vector<at::Tensor> tensors_of(const torch::jit::Stack& stack) {
  std::vector<at::Tensor> all;
  for (const auto& value : stack) {
    if (value.isTensor()) all.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorList()) all.push_back(t);
  }
  return all;
}

// The op on whole tensors, as one device runs it.
struct Plain {
  oracle::Recording recording;
  std::vector<at::Tensor> inputs, answers;  // inputs: undefined where the op takes none
};

// The op on the slices of all ranks, as the engine runs it.
struct Held {
  std::vector<SpecPtr> in, out;                          // null: undefined
  std::vector<std::vector<at::Tensor>> locals, results;  // [tensor][position]
};

}  // namespace

struct RowCheck::Impl {
  oracle::Case c;
  SampleCall sample;
  std::optional<c10::OperatorHandle> op;
  std::vector<int64_t> sources;  // for each input of the op, the case's; -1: undefined
  Plain unplaced;                // with every input Replicate

  oracle::Case placed(size_t input, const Placement& p) const {
    auto one = c;
    one.placements[static_cast<size_t>(sources[input])] = {{p}, {}};
    return one;
  }
  Plain plain(const Placements& inputs) const;
  Held place(const Row& row, const Plain& plain) const;
  bool run(Held& held) const;
  bool explained(const Plain& plain, const Held& held) const;
};

RowCheck::RowCheck(const oracle::Case& c, const SampleCall& sample) : impl_(std::make_unique<Impl>()) {
  auto& m = *impl_;
  m.c = c;
  m.sample = sample;
  const auto& call = sample.call;
  m.op = c10::Dispatcher::singleton().findSchemaOrThrow(call.name.c_str(), call.overload.c_str());
  const auto operands = operands_of(c, call.name);
  size_t next = 0;
  for (const auto& input : call.inputs) {
    m.sources.push_back(-1);
    if (!input.defined) continue;
    while (next < operands.size() && operands[next] < 0) ++next;
    LOCKSTEP_CHECK(next < operands.size(), "[rules] ", call.name,
                   " reads tensors that the case does not name");
    m.sources.back() = operands[next++];
  }
  m.unplaced = m.plain(Placements(m.sources.size(), Replicate{}));
  LOCKSTEP_CHECK(m.unplaced.answers.size() == call.outputs.size(), "[rules] ", call.name,
                 " has undefined results");
}

RowCheck::~RowCheck() = default;

size_t RowCheck::inputs() const {
  return impl_->sources.size();
}
size_t RowCheck::outputs() const {
  return impl_->unplaced.answers.size();
}

std::vector<Placement> RowCheck::candidates(size_t input) const {
  std::vector<Placement> all{Replicate{}};
  const auto& meta = impl_->sample.call.inputs[input];
  if (!meta.defined) return all;
  for (int64_t d = 0; d < meta.ndim(); ++d) all.emplace_back(Shard{d});
  if (at::isFloatingType(meta.dtype)) all.emplace_back(Partial{});
  return all;
}

// Of inputs so placed: terms that round, or a product of them that is zero, come to another whole tensor than
// they were made of.
Plain RowCheck::Impl::plain(const Placements& inputs) const {
  Plain result;
  for (size_t i = 0; i < sources.size(); ++i)
    result.inputs.push_back(sources[i] < 0 ? at::Tensor()
                                           : oracle::make_global(placed(i, inputs[i]), sources[i]));
  auto stack = stack_of(*op, *sample.logged, result.inputs);
  {
    const oracle::RecordingScope recorder(result.recording);
    op->callBoxed(stack);
  }
  result.answers = tensors_of(stack);
  return result;
}

// The locals of each input are made by the oracle, as those of a Program's inputs.
Held RowCheck::Impl::place(const Row& row, const Plain& plain) const {
  Held held;
  for (size_t i = 0; i < sources.size(); ++i) {
    held.locals.emplace_back(static_cast<size_t>(c.mesh.size()));
    held.in.emplace_back();
    if (sources[i] < 0) continue;
    const auto one = placed(i, row.inputs[i]);
    held.locals.back() = oracle::make_locals(one, sources[i]);
    held.in.back() = std::make_shared<const Spec>(oracle::spec_of(one, sources[i]));
  }
  for (size_t k = 0; k < plain.answers.size(); ++k) {
    const auto& answer = plain.answers[k];
    held.out.push_back(std::make_shared<const Spec>(c.mesh, Placements{row.outputs[k]}, answer.sizes().vec(),
                                                    contiguous_strides(answer.sizes().vec()),
                                                    answer.scalar_type()));
  }
  return held;
}

// False if a kernel refuses its slices.
bool RowCheck::Impl::run(Held& held) const {
  held.results.resize(held.out.size());
  try {
    for (int64_t position = 0; position < c.mesh.size(); ++position) {
      std::vector<at::Tensor> mine;
      for (const auto& l : held.locals) mine.push_back(l[static_cast<size_t>(position)]);
      auto stack = stack_of(*op, *sample.logged, mine);
      sample.entry->run[c.numerics]({*op, sample.call, held.in, held.out, position}, stack);
      const auto got = tensors_of(stack);
      for (size_t k = 0; k < held.results.size(); ++k) held.results[k].push_back(got.at(k));
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// By the oracle's two proofs, of a timeline that holds this op alone. A row of nonsense may ask of a kernel
// what it refuses.
bool RowCheck::Impl::explained(const Plain& plain, const Held& held) const {
  auto entry = *sample.logged;
  std::vector<oracle::Start> starts;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (held.in[i] == nullptr) continue;
    entry.inputs[i] = record(held.in[i], held.locals[i]);
    starts.push_back({plain.inputs[i], held.in[i],
                      held.in[i]->has_partial() ? held.locals[i] : std::vector<at::Tensor>()});
  }
  std::vector<oracle::Final> finals;
  for (size_t k = 0; k < held.out.size(); ++k) {
    entry.outputs[k] = record(held.out[k], held.results[k]);
    finals.push_back({plain.answers[k], entry.outputs[k]});
  }
  try {
    return oracle::check(plain.recording, {entry}, starts, finals, c.numerics).passed();
  } catch (const std::exception&) {
    return false;
  }
}

bool RowCheck::holds(const Row& row) const {
  const auto& m = *impl_;
  const Plain plain = m.plain(row.inputs);
  auto held = m.place(row, plain);
  if (!m.run(held)) return false;
  bool equal = true;
  for (size_t k = 0; k < held.results.size(); ++k) {
    const auto assembly = oracle::assemble(held.results[k], *held.out[k]);
    if (assembly.disagreement || !assembly.global.defined()) return false;
    const auto expected = plain.answers[k].contiguous(), actual = assembly.global.contiguous();
    equal = equal && oracle::compare(expected, actual).equal();
    if (!may_be_rounding(expected, actual)) return false;
  }
  return equal || (!m.c.integer_lane && m.explained(plain, held));
}

std::vector<Placement> RowCheck::true_outputs(const Placements& inputs) const {
  if (outputs() != 1) return {};
  const auto& answer = impl_->unplaced.answers[0];
  std::vector<Placement> tries{Replicate{}}, found;
  if (at::isFloatingType(answer.scalar_type())) tries.emplace_back(Partial{});
  for (int64_t d = 0; d < answer.dim(); ++d) tries.emplace_back(Shard{d});
  for (const auto& candidate : tries)
    if (holds({.outputs = {candidate}, .inputs = inputs})) found.push_back(candidate);
  return found;
}

}  // namespace lockstep::suites
