// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/row_check.h"

#include <ATen/ATen.h>

#include "engine/values/error.h"
#include "oracle/compare.h"
#include "oracle/evaluate.h"
#include "oracle/ownership.h"
#include "oracle/random_simulation.h"
#include "oracle/replay.h"
#include "oracle/values.h"

namespace lockstep::suites {
namespace {

std::string stem(const std::string& op) { return op.substr(0, op.find('.')); }

// Inputs that a call's tensors come from, flattened in schema order; -1: undefined. Redistributions are looked through.
std::vector<int64_t> operands_of(const oracle::Case& c, const std::string& op) {
  std::vector<int64_t> source;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) source.push_back(static_cast<int64_t>(i));
  for (const auto& call : c.program.calls) {
    std::vector<int64_t> found;
    for (const auto& arg : call.args) {
      if (const auto* ref = std::get_if<oracle::Ref>(&arg)) found.push_back(source.at(static_cast<size_t>(ref->id)));
      if (const auto* list = std::get_if<std::vector<oracle::Ref>>(&arg))
        for (const auto& ref : *list) found.push_back(ref.id < 0 ? -1 : source.at(static_cast<size_t>(ref.id)));
    }
    if (stem(call.op) == op) return found;
    LOCKSTEP_CHECK(call.op == "lockstep::redistribute" && found.size() == 1 && found[0] >= 0,
                   "[rules] the operands of ", op, " are not inputs of the case");
    source.push_back(found[0]);
  }
  throw Error(concat("[rules] the case does not call ", op));
}

bool close(const oracle::Difference& d, c10::ScalarType dtype) {
  if (d.equal()) return true;
  if (!at::isFloatingType(dtype) || d.bits == oracle::BitClass::kShape || d.bits == oracle::BitClass::kNanPayload)
    return d.bits == oracle::BitClass::kNanPayload;
  const double rounding = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-4 : 0.06;
  return d.bits == oracle::BitClass::kZeroSign || d.max_abs < rounding || d.max_rel < rounding;
}

}  // namespace

struct RowCheck::Impl {
  oracle::Case c;
  oracle::PlainRun plain;
  const oracle::RecordedOp* op = nullptr;
  std::vector<oracle::Effect> effects;
  std::vector<int64_t> sources;            // for each defined input of the op, in order
  std::vector<at::Tensor> answers;         // of the effects
  std::vector<std::optional<size_t>> of;   // op input -> index into sources

  SpecPtr spec(const at::Tensor& tensor, const Placement& p) const {
    return std::make_shared<const Spec>(c.mesh, Placements{p}, tensor.sizes().vec(),
                                        contiguous_strides(tensor.sizes().vec()), tensor.scalar_type());
  }
  std::vector<std::vector<at::Tensor>> placed(const Placements& inputs, std::vector<SpecPtr>& specs) const;
  std::optional<std::vector<std::vector<at::Tensor>>> run(const Placements& inputs, const Placements& outputs) const;
};

RowCheck::RowCheck(const oracle::Case& c, const std::string& op) : impl_(std::make_unique<Impl>()) {
  auto& m = *impl_;
  m.c = c;
  oracle::SimulatedSource source;
  m.plain = oracle::evaluate_recorded(c, source);
  for (const auto& recorded : m.plain.recording.ops)
    if (stem(recorded.op->name) == op) m.op = &recorded;
  LOCKSTEP_CHECK(m.op != nullptr, "[rules] the plain run does not reach ", op);
  m.effects = oracle::effects(*m.op);
  const auto operands = operands_of(c, op);
  for (size_t i = 0, next = 0; i < m.op->inputs.size(); ++i) {
    m.of.emplace_back();
    if (!m.op->inputs[i].defined()) continue;
    while (next < operands.size() && operands[next] < 0) ++next;
    LOCKSTEP_CHECK(next < operands.size(), "[rules] ", op, " reads tensors that the case does not name");
    m.of.back() = m.sources.size();
    m.sources.push_back(operands[next++]);
  }
  for (const auto& effect : m.effects) m.answers.push_back(m.plain.recording.read(effect.window));
}

RowCheck::~RowCheck() = default;

size_t RowCheck::inputs() const { return impl_->op->inputs.size(); }
size_t RowCheck::outputs() const { return impl_->effects.size(); }

std::vector<Placement> RowCheck::candidates(size_t input) const {
  std::vector<Placement> all{Replicate{}};
  const auto& window = impl_->op->inputs[input];
  if (!window.defined()) return all;
  for (size_t d = 0; d < window.shape.size(); ++d) all.emplace_back(Shard{static_cast<int64_t>(d)});
  if (at::isFloatingType(window.dtype)) all.emplace_back(Partial{});
  return all;
}

// The locals of each input so placed, made by the oracle as those of a Program's inputs.
std::vector<std::vector<at::Tensor>> RowCheck::Impl::placed(const Placements& inputs, std::vector<SpecPtr>& specs) const {
  std::vector<std::vector<at::Tensor>> locals;
  for (size_t i = 0; i < op->inputs.size(); ++i) {
    locals.emplace_back(static_cast<size_t>(c.mesh.size()));
    specs.emplace_back();
    if (!of[i]) continue;
    auto one = c;
    const auto source = sources[*of[i]];
    one.placements[static_cast<size_t>(source)] = {{inputs[i]}, {}};
    locals.back() = oracle::make_locals(one, source);
    specs.back() = std::make_shared<const Spec>(oracle::spec_of(one, source));
  }
  return locals;
}

std::optional<std::vector<std::vector<at::Tensor>>> RowCheck::Impl::run(const Placements& inputs,
                                                                        const Placements& outputs) const {
  std::vector<SpecPtr> in, out;
  const auto locals = placed(inputs, in);
  for (size_t k = 0; k < effects.size(); ++k) out.push_back(spec(answers[k], outputs[k]));
  std::vector<std::vector<at::Tensor>> results(effects.size());
  try {
    for (int64_t position = 0; position < c.mesh.size(); ++position) {
      std::vector<at::Tensor> mine;
      for (const auto& l : locals) mine.push_back(l[static_cast<size_t>(position)]);
      const auto got = oracle::apply_local(*op, effects, mine, {in, out, position});
      for (size_t k = 0; k < got.size(); ++k) results[k].push_back(got[k]);
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
    if (!close(oracle::compare(answer.contiguous(), assembly.global.contiguous()), answer.scalar_type())) return false;
  }
  return true;
}

std::vector<Placements> RowCheck::true_outputs(const Placements& inputs) const {
  std::vector<Placements> found;
  // Outputs are tried one at a time, the others Replicate: their local runs do not depend on them but for sizes.
  for (size_t k = 0; k < impl_->effects.size(); ++k) {
    found.emplace_back();
    std::vector<Placement> tries{Replicate{}, Partial{}};
    for (int64_t d = 0; d < impl_->answers[k].dim(); ++d) tries.emplace_back(Shard{d});
    for (const auto& candidate : tries) {
      Row row;
      row.inputs = inputs;
      for (size_t j = 0; j < impl_->effects.size(); ++j) row.outputs.push_back(candidate);
      if (impl_->effects.size() > 1) continue;
      if (is_partial(candidate) && !at::isFloatingType(impl_->answers[k].scalar_type())) continue;
      if (holds(row)) found.back().push_back(candidate);
    }
  }
  return found;
}

}  // namespace lockstep::suites
