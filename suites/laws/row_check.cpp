// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/row_check.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/program/values.h"

namespace lockstep::suites {
namespace {

std::string stem(const std::string& op) {
  return op.substr(0, op.find('.'));
}

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

// The largest finite magnitude among what the ranks hold.
double magnitude(const std::vector<at::Tensor>& locals) {
  double most = 1;
  for (const auto& local : locals)
    if (local.numel() > 0)
      most = std::max(most, at::nan_to_num(local.to(at::kDouble), 0, 0, 0).abs().max().item<double>());
  return most;
}

// Equal but for rounding, which is relative to the terms that are summed: they may cancel.
bool close(const oracle::Difference& d, c10::ScalarType dtype, double terms) {
  if (d.equal()) return true;
  if (!at::isFloatingType(dtype) || d.bits == oracle::BitClass::kShape ||
      d.bits == oracle::BitClass::kNanPayload)
    return d.bits == oracle::BitClass::kNanPayload;
  const double rounding = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-4 : 0.06;
  return d.bits == oracle::BitClass::kZeroSign || d.max_abs < rounding * terms || d.max_rel < rounding;
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

}  // namespace

struct RowCheck::Impl {
  oracle::Case c;
  SampleCall sample;
  std::optional<c10::OperatorHandle> op;
  std::vector<int64_t> sources;     // for each input of the op, the case's; -1: undefined
  std::vector<at::Tensor> answers;  // the plain results

  SpecPtr spec(const at::Tensor& tensor, const Placement& p) const {
    return std::make_shared<const Spec>(c.mesh, Placements{p}, tensor.sizes().vec(),
                                        contiguous_strides(tensor.sizes().vec()), tensor.scalar_type());
  }
  std::vector<at::Tensor> plain() const;
  std::vector<std::vector<at::Tensor>> placed(const Placements& inputs, std::vector<SpecPtr>& specs) const;
  std::optional<std::vector<std::vector<at::Tensor>>> run(const Placements& inputs,
                                                          const Placements& outputs) const;
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
  m.answers = m.plain();
  LOCKSTEP_CHECK(m.answers.size() == call.outputs.size(), "[rules] ", call.name, " has undefined results");
}

RowCheck::~RowCheck() = default;

size_t RowCheck::inputs() const {
  return impl_->sources.size();
}
size_t RowCheck::outputs() const {
  return impl_->answers.size();
}

std::vector<Placement> RowCheck::candidates(size_t input) const {
  std::vector<Placement> all{Replicate{}};
  const auto& meta = impl_->sample.call.inputs[input];
  if (!meta.defined) return all;
  for (int64_t d = 0; d < meta.ndim(); ++d) all.emplace_back(Shard{d});
  if (at::isFloatingType(meta.dtype)) all.emplace_back(Partial{});
  return all;
}

// The stock op on the whole tensors.
std::vector<at::Tensor> RowCheck::Impl::plain() const {
  std::vector<at::Tensor> whole;
  for (const auto source : sources)
    whole.push_back(source < 0 ? at::Tensor() : oracle::make_global(c, source));
  auto stack = stack_of(*op, *sample.logged, whole);
  op->callBoxed(stack);
  auto results = tensors_of(stack);
  for (auto& r : results) r = r.clone();
  return results;
}

// The locals of each input so placed, made by the oracle as those of a Program's inputs.
std::vector<std::vector<at::Tensor>> RowCheck::Impl::placed(const Placements& inputs,
                                                            std::vector<SpecPtr>& specs) const {
  std::vector<std::vector<at::Tensor>> locals;
  for (size_t i = 0; i < sources.size(); ++i) {
    locals.emplace_back(static_cast<size_t>(c.mesh.size()));
    specs.emplace_back();
    if (sources[i] < 0) continue;
    auto one = c;
    one.placements[static_cast<size_t>(sources[i])] = {{inputs[i]}, {}};
    locals.back() = oracle::make_locals(one, sources[i]);
    specs.back() = std::make_shared<const Spec>(oracle::spec_of(one, sources[i]));
  }
  return locals;
}

std::optional<std::vector<std::vector<at::Tensor>>> RowCheck::Impl::run(const Placements& inputs,
                                                                        const Placements& outputs) const {
  std::vector<SpecPtr> in, out;
  const auto locals = placed(inputs, in);
  for (size_t k = 0; k < answers.size(); ++k) out.push_back(spec(answers[k], outputs[k]));
  std::vector<std::vector<at::Tensor>> results(answers.size());
  try {
    for (int64_t position = 0; position < c.mesh.size(); ++position) {
      std::vector<at::Tensor> mine;
      for (const auto& l : locals) mine.push_back(l[static_cast<size_t>(position)]);
      auto stack = stack_of(*op, *sample.logged, mine);
      sample.entry->run[lane()]({*op, sample.call, in, out, position}, stack);
      const auto got = tensors_of(stack);
      for (size_t k = 0; k < results.size(); ++k) results[k].push_back(got.at(k).clone());
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return results;
}

bool RowCheck::holds(const Row& row) const {
  const auto results = impl_->run(row.inputs, row.outputs);
  if (!results) return false;
  for (size_t k = 0; k < results->size(); ++k) {
    const auto& answer = impl_->answers[k];
    const auto spec = impl_->spec(answer, row.outputs[k]);
    const auto assembly = oracle::assemble((*results)[k], *spec);
    if (assembly.disagreement || !assembly.global.defined()) return false;
    const auto difference = oracle::compare(answer.contiguous(), assembly.global.contiguous());
    const double terms = is_partial(row.outputs[k]) ? magnitude((*results)[k]) : 1;
    if (!close(difference, answer.scalar_type(), terms)) return false;
  }
  return true;
}

std::vector<Placements> RowCheck::true_outputs(const Placements& inputs) const {
  std::vector<Placements> found;
  // Outputs are tried one at a time, the others Replicate: their local runs do not depend on them but for
  // sizes.
  for (size_t k = 0; k < impl_->answers.size(); ++k) {
    found.emplace_back();
    std::vector<Placement> tries{Replicate{}, Partial{}};
    for (int64_t d = 0; d < impl_->answers[k].dim(); ++d) tries.emplace_back(Shard{d});
    for (const auto& candidate : tries) {
      Row row;
      row.inputs = inputs;
      for (size_t j = 0; j < impl_->answers.size(); ++j) row.outputs.push_back(candidate);
      if (impl_->answers.size() > 1) continue;
      if (is_partial(candidate) && !at::isFloatingType(impl_->answers[k].scalar_type())) continue;
      if (holds(row)) found.back().push_back(candidate);
    }
  }
  return found;
}

}  // namespace lockstep::suites
