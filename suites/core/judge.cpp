// SPDX-License-Identifier: Apache-2.0
#include "suites/core/judge.h"

#include <ATen/ATen.h>

#include <bit>

#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "oracle/judge/check.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/before_call.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "suites/core/bounded.h"
#include "suites/core/by_library.h"
#include "suites/core/facts.h"
#include "suites/core/in_memory.h"
#include "suites/core/refusal.h"

namespace lockstep::suites {
namespace {

struct Divergence {
  size_t value = 0;
  std::string verdict, text;
  std::optional<dashboard::TensorDiff> difference;
};

std::string value_name(const oracle::Case& c, size_t value) {
  return oracle::value_name(c.program, static_cast<int64_t>(value));
}

// The call that defines a value, or null for an input.
const oracle::Call* call_of(const oracle::Case& c, size_t value) {
  size_t next = c.program.inputs.size();
  for (const auto& call : c.program.calls) {
    next += static_cast<size_t>(call.results);
    if (value < next) return value < c.program.inputs.size() ? nullptr : &call;
  }
  return nullptr;
}

dashboard::TensorDiff diff_row(const std::string& name, const oracle::Difference& d, c10::ScalarType dtype,
                               int64_t rank) {
  dashboard::TensorDiff row;
  row.value = name;
  row.bit_class = oracle::name(d.bits);
  row.dtype = dtype_name(dtype);
  row.elements = d.elements;
  row.different = d.different;
  row.max_ulp = d.max_ulp;
  row.max_abs_bits = std::bit_cast<uint64_t>(d.max_abs);
  row.first_index = d.first_index;
  row.rank = rank;
  row.expected_bits = d.expected_bits;
  row.actual_bits = d.actual_bits;
  return row;
}

Divergence differs(const oracle::Case& c, size_t value, const oracle::Difference& d, c10::ScalarType dtype,
                   const std::string& where, int64_t rank) {
  return {value, oracle::name(d.bits), concat(value_name(c, value), where, ": ", oracle::describe(d, dtype)),
          diff_row(value_name(c, value), d, dtype, rank)};
}

// Whether an op returns what it was given, as one in place does; others, where there is nothing to do.
bool may_return_itself(const oracle::Call& call) {
  static constexpr std::array kOps = {"aten::contiguous", "aten::to",         "aten::type_as",
                                      "aten::flatten",    "aten::positive",   "aten::ravel",
                                      "aten::dropout",    "aten::sum_to_size"};
  return oracle::is_in_place(call.op) ||
         std::find(kOps.begin(), kOps.end(), oracle::stem(call.op)) != kOps.end();
}

size_t itself(const oracle::Case& c, size_t value) {
  for (const auto* call = call_of(c, value); call != nullptr && may_return_itself(*call);
       call = call_of(c, value)) {
    const auto* given = std::get_if<oracle::Ref>(&call->args.at(0));
    if (given == nullptr || given->id < 0) break;
    value = static_cast<size_t>(given->id);
  }
  return value;
}

// Some op of the Program changes the shape of a value in place, and its placements with it.
bool changes_metadata(const oracle::Case& c, size_t value) {
  static constexpr std::array kOps = {"aten::t_",          "aten::transpose_", "aten::squeeze_",
                                      "aten::unsqueeze_",  "aten::swapdims_",  "aten::swapaxes_",
                                      "aten::as_strided_", "aten::resize_"};
  const auto changed = itself(c, value);
  return std::any_of(c.program.calls.begin(), c.program.calls.end(), [&](const oracle::Call& call) {
    const auto is_of = [&](const oracle::Ref& ref) {
      return ref.id >= 0 && itself(c, static_cast<size_t>(ref.id)) == changed;
    };
    return std::find(kOps.begin(), kOps.end(), oracle::stem(call.op)) != kOps.end() &&
           is_of(std::get<oracle::Ref>(call.args.at(0)));
  });
}

// The input whose gradient a value is.
std::optional<size_t> input_of_gradient(const oracle::Case& c, size_t value) {
  const auto& inputs = c.program.inputs;
  size_t next = inputs.size();
  for (const auto& call : c.program.calls) {
    for (size_t i = 0; i < inputs.size() && oracle::runs_backward(call.op); ++i)
      if (inputs[i].requires_grad && next++ == value) return i;
    if (!oracle::runs_backward(call.op)) next += static_cast<size_t>(call.results);
  }
  return std::nullopt;
}

// A gradient lies as its input does, replicated where that pends.
std::optional<Divergence> wrong_gradient(const oracle::Case& c, size_t value, const Spec& got) {
  const auto input = input_of_gradient(c, value);
  if (!input || is_plain(c.placements[*input]) || changes_metadata(c, *input)) return std::nullopt;
  auto [placements, order] = c.placements[*input];
  for (auto& p : placements)
    if (is_partial(p)) p = Replicate{};
  const auto wanted = got.with_placements(placements, order);
  if (wanted == got) return std::nullopt;
  return Divergence{value,
                    "placement",
                    concat(value_name(c, value), ": the gradient of ", value_name(c, *input), " lies as ",
                           to_string(wanted), ", and came as ", to_string(got)),
                    {}};
}

// What the Program itself places lies so to the end: no op moves a value that is there.
std::optional<Divergence> wrong_target(const oracle::Case& c, size_t value, const Spec& got) {
  const auto* call = call_of(c, value);
  const auto* target = call == nullptr ? &c.placements[value] : oracle::placed_by(*call);
  if (target == nullptr || changes_metadata(c, value)) return std::nullopt;
  // An empty out becomes the result that is written to it.
  if (call == nullptr && c.program.inputs[value].shape != got.shape()) return std::nullopt;
  const auto everywhere = Placements(got.placements().size(), Replicate{});
  const auto wanted = got.with_placements(is_plain(*target) ? everywhere : target->placements, target->order);
  if (wanted == got) return std::nullopt;
  return Divergence{value,
                    "placement",
                    concat(value_name(c, value), ": asked for ", to_string(wanted), ", got ", to_string(got)),
                    {}};
}

Divergence other(const oracle::Case& c, size_t value, const char* verdict, const std::string& text) {
  return {value, verdict, concat(value_name(c, value), ": ", text), {}};
}

// The whole tensor lies as on one device, where strides say anything.
std::optional<Divergence> wrong_stride(const oracle::Case& c, size_t value, const at::Tensor& plain,
                                       const Spec& spec) {
  for (int64_t d = 0; d < plain.dim() && plain.numel() > 0; ++d)
    if (plain.size(d) > 1 && spec.stride()[static_cast<size_t>(d)] != plain.stride(d))
      return other(c, value, "stride",
                   concat(to_string(spec), " has strides ", at::IntArrayRef(spec.stride()),
                          ", but on one device ", plain.strides()));
  return std::nullopt;
}

// What a rank holds has the dtype and the shape of its slice, also where it has no element.
std::optional<Divergence> malformed(const oracle::Case& c, size_t value, const EngineValue& got) {
  const Spec& spec = *got.spec;
  if (std::ssize(got.locals) != spec.mesh().size())
    return other(c, value, "malformed",
                 concat("has ", got.locals.size(), " locals on ", spec.mesh().size(), " ranks"));
  for (size_t p = 0; p < got.locals.size(); ++p) {
    const auto& local = got.locals[p];
    const auto wanted = oracle::local_shape(spec, static_cast<int64_t>(p));
    if (!local.defined() || local.scalar_type() != spec.dtype() || local.sizes() != at::IntArrayRef(wanted))
      return other(c, value, "malformed",
                   concat("holds ", local.defined() ? dtype_name(local.scalar_type()) : "nothing",
                          local.defined() ? concat("[", shape_text(local.sizes().vec()), "]") : "",
                          " at position ", p, ", where ", to_string(spec), " has ", dtype_name(spec.dtype()),
                          "[", shape_text(wanted), "]"));
  }
  return std::nullopt;
}

// Defined, on the mesh, of the shape, dtype and placements asked for, and held so by every rank.
std::optional<Divergence> misplaced(const oracle::Case& c, size_t value, const at::Tensor& plain,
                                    const EngineValue& got, const EngineProfile& engine) {
  if (plain.defined() != got.defined())
    return other(
        c, value, "shape",
        plain.defined() ? "undefined, but one device has a value" : "a value, but undefined on one device");
  if (!plain.defined()) return std::nullopt;
  const Spec& spec = *got.spec;
  if (spec.mesh() != c.mesh || spec.mesh().names() != c.mesh.names())
    return other(c, value, "placement", "is on the mesh " + to_string(spec.mesh()));
  if (spec.shape() != plain.sizes().vec() || spec.dtype() != plain.scalar_type())
    return other(c, value, "shape",
                 concat(to_string(spec), ", but on one device ", dtype_name(plain.scalar_type()), "[",
                        shape_text(plain.sizes().vec()), "]"));
  if (auto d = wrong_target(c, value, spec)) return d;
  if (engine.has(Flag::kGradients))
    if (auto d = wrong_gradient(c, value, spec)) return d;
  if (auto d = wrong_stride(c, value, plain, spec)) return d;
  return malformed(c, value, got);
}

std::optional<Divergence> misplaced(const oracle::Case& c, const std::vector<at::Tensor>& plain,
                                    const EngineResult& got, const EngineProfile& engine) {
  if (plain.size() != got.values.size())
    return Divergence{
        0,
        "malformed",
        concat(got.values.size(), " values of the engine for ", plain.size(), " of the Program"),
        {}};
  for (size_t v = 0; v < plain.size(); ++v)
    if (auto d = misplaced(c, v, plain[v], got.values[v], engine)) return d;
  return std::nullopt;
}

// @pre not misplaced
std::optional<Divergence> compare_value(const oracle::Case& c, size_t value, const at::Tensor& plain,
                                        const EngineValue& got) {
  if (!plain.defined()) return std::nullopt;
  const Spec& spec = *got.spec;
  if (spec.has_partial()) {
    const auto assembly = oracle::assemble(got.locals, spec);
    if (assembly.disagreement) return other(c, value, "replicas", assembly.disagreement->text);
    const auto d = oracle::compare(plain, assembly.global);
    if (!d.equal()) return differs(c, value, d, spec.dtype(), " (its terms folded)", 0);
    return std::nullopt;
  }
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    const auto d =
        oracle::compare(oracle::slice(plain, spec, position), got.locals[static_cast<size_t>(position)]);
    const auto rank = spec.mesh().ranks()[static_cast<size_t>(position)];
    if (!d.equal())
      return differs(c, value, d, spec.dtype(),
                     concat(" ", to_string(spec.placements()), " on rank ", rank, " (local index)"), rank);
  }
  return std::nullopt;
}

std::optional<Divergence> first_divergence(const oracle::Case& c, const std::vector<at::Tensor>& plain,
                                           const EngineResult& got) {
  for (size_t v = 0; v < plain.size(); ++v)
    if (auto d = compare_value(c, v, plain[v], got.values[v])) return d;
  return std::nullopt;
}

// The value's own placements and dtype, where it has some, tell it from other failures.
Failed failure_at(const oracle::Case& c, const Divergence& d, const EngineResult& got) {
  const auto* call = call_of(c, d.value);
  const SpecPtr spec = d.value < got.values.size() ? got.values[d.value].spec : nullptr;
  auto f = failed(c.suite, d.verdict, call ? call->op : "",
                  spec ? placement_pattern({spec->placements()}) : placement_pattern(c),
                  spec ? dtype_name(spec->dtype()) : "", d.text);
  if (d.difference) f.differences.push_back(*d.difference);
  return f;
}

// The oracle's finding, with the op that it names: what is wrong there. What the values at the end look like,
// which depends on what follows, is shown beside it; they tell alone where no op does.
Failed failure_of(const oracle::Case& c, const oracle::Judgement& judgement, const EngineResult& got,
                  const std::optional<Divergence>& divergence) {
  const auto& fault = *judgement.mismatch;
  auto text = oracle::describe(judgement);
  if (fault.op.empty() && divergence) {
    auto f = failure_at(c, *divergence, got);
    f.explanation = text + "\n" + f.explanation;
    return f;
  }
  std::vector<Placements> placements;
  std::string dtype;
  if (fault.entry < got.timeline.size()) {
    const auto& entry = got.timeline[fault.entry];
    for (const auto& r : entry.inputs)
      if (r.spec) placements.push_back(r.spec->placements());
    if (entry.inputs.empty())  // a factory
      for (const auto& r : entry.outputs)
        if (r.spec) placements.push_back(r.spec->placements());
    for (const auto& r : entry.outputs)
      if (r.spec && dtype.empty()) dtype = dtype_name(r.spec->dtype());
  }
  if (divergence) text += "\n" + divergence->text;
  auto f = failed(c.suite, oracle::name(fault.condition), fault.op,
                  placements.empty() ? placement_pattern(c) : placement_pattern(placements), dtype, text);
  if (divergence && divergence->difference) f.differences.push_back(*divergence->difference);
  return f;
}

dashboard::Verdict class_of(oracle::Why why) {
  if (why == oracle::Why::kLocalKernel) return dashboard::Verdict::kExplainedLocalKernel;
  return why == oracle::Why::kOverflow ? dashboard::Verdict::kExplainedOverflow
                                       : dashboard::Verdict::kExplained;
}

// Equal numbers, but for the signs of zeros.
bool same_numbers(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].defined() == b[i].defined() && (!a[i].defined() || at::equal(oracle::in_host(a[i]), b[i]));
  return same;
}

// Whether what is explained must not have happened: in the integer lane any order is exact. Only in the fast
// lane may a kernel choose the sign of a sum of zeros by its shape, and a library that of the greatest zero.
bool must_be_equal(const oracle::Case& c, const std::vector<at::Tensor>& plain,
                   const std::vector<at::Tensor>& finals, Allowed allowed) {
  if (allowed == Allowed::kEqual) return true;
  return c.integer_lane && !((c.numerics == Lane::kFast || is_by_library(c)) && same_numbers(plain, finals));
}

// Whether a rounding may make such a difference.
bool may_be_rounding(const Divergence& d) {
  return d.difference.has_value() && d.verdict != oracle::name(oracle::BitClass::kShape);
}

// Of several zeros or NaNs a kernel of the fast lane, or a library, takes one by the shapes of parts, and
// what ran on the meshes of a mesh_map is not in the timeline: where nothing else differs nobody can tell.
bool may_be_of_parts(const oracle::Case& c, const oracle::Mismatch& mismatch,
                     const std::optional<Divergence>& d) {
  const auto& calls = c.program.calls;
  const bool chooses = c.numerics == Lane::kFast || is_by_library(c);
  const bool of_values =
      mismatch.condition == oracle::Condition::kClosed || mismatch.condition == oracle::Condition::kFinal;
  return chooses && of_values &&
         std::any_of(calls.begin(), calls.end(), [](auto& call) { return call.op == oracle::kMeshMap; }) &&
         (!d || d->verdict == oracle::name(oracle::BitClass::kZeroSign) ||
          d->verdict == oracle::name(oracle::BitClass::kNanPayload));
}

// Of an engine that does not say what it did.
Outcome judged_by_bounds(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                         EngineUnderTest& engine, Allowed allowed) {
  if (auto d = misplaced(c, plain.values, got, engine.profile())) return failure_at(c, *d, got);
  const auto d = first_divergence(c, plain.values, got);
  if (!d) return Passed{};
  const bool signs = c.numerics == Lane::kFast && d->verdict == oracle::name(oracle::BitClass::kZeroSign);
  if (allowed == Allowed::kEqual || (c.integer_lane && !signs) || !may_be_rounding(*d))
    return failure_at(c, *d, got);
  const auto bounded = judge_bounded(c, plain, got, engine);
  if (bounded.outside)
    return failure_at(c, {bounded.outside->value, "bound", bounded.outside->text, {}}, got);
  if (!bounded.open.empty()) return not_judged(bounded.open, bounded.note);
  Passed passed;
  passed.verdict = dashboard::Verdict::kBounded;
  if (const auto* call = call_of(c, d->value)) passed.explained.emplace_back(call->op, passed.verdict);
  passed.note = "bounded: " + d->text;
  return passed;
}

size_t number_of(const oracle::Case& c, const oracle::Call& call) {
  return static_cast<size_t>(&call - c.program.calls.data());
}

// The Case before a call whose operands that pend are then made whole: as the op finds them.
oracle::Case as_read(const oracle::Case& c, size_t number, const EngineResult& got) {
  auto read = oracle::before_call(c, number);
  const auto whole = Placements(static_cast<size_t>(c.mesh.ndim()), Replicate{});
  oracle::each_ref(c.program.calls[number], [&](const oracle::Ref& ref) {
    if (ref.id < 0) return;
    const auto& spec = got.values[static_cast<size_t>(ref.id)].spec;
    if (spec != nullptr && spec->has_partial())
      read.program.calls.push_back({std::string(oracle::kRedistribute), {ref, oracle::Target{whole, {}}}, 1});
  });
  return read;
}

// Whether some operand of a call has other values than on one device. @pre `read`, as_read of it, has passed
bool reads_other_values(const oracle::Case& c, const oracle::Call& call, const oracle::PlainRun& plain,
                        const EngineResult& got, const oracle::Case& read, EngineUnderTest& engine) {
  bool differs = false;
  oracle::each_ref(call, [&](const oracle::Ref& ref) {
    const auto v = static_cast<size_t>(ref.id);
    if (ref.id >= 0) differs = differs || compare_value(c, v, plain.values[v], got.values[v]);
  });
  const auto of_device = oracle::evaluate_recorded(read, *engine.plain_source());
  const auto of_ranks = engine.run(read, false);
  for (size_t v = of_device.values.size() - (read.program.calls.size() - number_of(c, call));
       !differs && v < of_device.values.size(); ++v)
    differs = compare_value(read, v, of_device.values[v], of_ranks.values[v]).has_value();
  return differs;
}

// A shape that depends on values (nonzero) of values that differ: where they do so by proof nobody can tell
// which shape is right; else what makes them differ is told. What pends has the values that a sum in some
// order gives it when the op makes it whole.
std::optional<Outcome> of_other_values(const oracle::Case& c, const Divergence& d,
                                       const oracle::PlainRun& plain, const EngineResult& got,
                                       EngineUnderTest& engine, Allowed allowed) {
  const auto* call = call_of(c, d.value);
  if (d.verdict != "shape" || call == nullptr || oracle::is_own(call->op) || !got.values[d.value].defined() ||
      !oracle::find_operator(call->op).handle.hasTag(at::Tag::dynamic_output_shape))
    return std::nullopt;
  const auto read = as_read(c, number_of(c, *call), got);
  auto before = judge_against_oracle(read, engine, allowed);
  if (!std::holds_alternative<Passed>(before)) return before;
  if (!reads_other_values(c, *call, plain, got, read, engine)) return std::nullopt;
  return not_judged("a shape of values that are explained", d.text);
}

Outcome judged_by_values(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                         EngineUnderTest& engine, Allowed allowed, Storages& outside) {
  if (!got.has_timeline) return judged_by_bounds(c, plain, got, engine, allowed);
  if (auto d = misplaced(c, plain.values, got, engine.profile())) {
    if (auto other = of_other_values(c, *d, plain, got, engine, allowed)) return *other;
    return failure_at(c, *d, got);
  }
  std::vector<TensorRecord> finals;
  for (const auto& value : got.values) finals.push_back(record(value.spec, value.locals));
  const auto judgement = oracle::check(c, plain, got.timeline, finals);
  outside = judgement.outside;
  if (judgement.mismatch) {
    const auto d = first_divergence(c, plain.values, got);
    if (may_be_of_parts(c, *judgement.mismatch, d))
      return not_judged("mesh_map by kernels that choose", judgement.mismatch->text);
    return failure_of(c, judgement, got, d);
  }
  if (!judgement.equal && must_be_equal(c, plain.values, judgement.finals, allowed)) {
    const auto d = first_divergence(c, plain.values, got);
    auto f = failure_at(c, d ? *d : Divergence{0, "inexact", "", {}}, got);
    f.explanation = concat(c.integer_lane ? "in the integer lane any order is exact, so this is a fault:\n"
                                          : "here nothing may differ:\n",
                           oracle::describe(judgement), "\n", f.explanation);
    return f;
  }
  return passed_with(judgement);
}

Outcome judged(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
               EngineUnderTest& engine, Allowed allowed) {
  Storages outside;
  auto outcome = judged_by_values(c, plain, got, engine, allowed, outside);
  if (!std::holds_alternative<Passed>(outcome) || !engine.profile().has(Flag::kMemory)) return outcome;
  const auto elsewhere = lies_elsewhere(c, plain.values, got.values, outside);
  if (elsewhere) return failure_at(c, {elsewhere->value, elsewhere->verdict, elsewhere->text, {}}, got);
  return outcome;
}

}  // namespace

Passed passed_with(const oracle::Judgement& judgement) {
  Passed passed;
  if (!judgement.equal) passed.verdict = dashboard::Verdict::kExplained;
  for (const auto& e : judgement.explained) {
    passed.explained.emplace_back(e.op, class_of(e.why));
    if (!judgement.equal) passed.verdict = std::max(passed.verdict, class_of(e.why));
  }
  if (!judgement.equal) passed.note = oracle::describe(judgement);
  for (const auto& [what, count] : judgement.forgiven) {
    const auto& [kind, op] = what;
    passed.forgiven.push_back({oracle::name(kind), op, std::string(oracle::row_of(kind, op).reason), count});
  }
  return passed;
}

Outcome judge_run(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                  EngineUnderTest& engine, Allowed allowed) {
  try {
    auto outcome = judged(c, plain, got, engine, allowed);
    if (std::holds_alternative<Passed>(outcome) && got.random_after != plain.random_after)
      return failed(c.suite, "random offset", "", "-", "",  // of no tensor, so of no placement
                    concat("the stream ends at offset ", got.random_after.offset, ", on one device at ",
                           plain.random_after.offset));
    return outcome;
  } catch (const EngineFailure& e) {  // of its float64 twin
    return failed_run(c, e);
  }
}

Outcome judge_against_oracle(const oracle::Case& c, EngineUnderTest& engine, Allowed allowed) {
  const auto plain = oracle::evaluate_recorded(c, *engine.plain_source());
  EngineResult got;
  try {
    got = engine.run(c, true);
  } catch (const EngineFailure& e) {
    return failed_run(c, e);
  } catch (const c10::AcceleratorError&) {
    throw;  // no verdict: nothing runs on the device any more
  } catch (const std::exception& e) {
    if (const auto refusal = refusal_of(e, c)) return judge_refusal(c, engine, allowed, *refusal, e.what());
    return thrown_run(c, e);
  }
  return judge_run(c, plain, got, engine, allowed);
}

std::string first_disagreement(const EngineResult& a, const EngineResult& b) {
  if (a.values.size() != b.values.size()) return "another number of values";
  for (size_t v = 0; v < a.values.size(); ++v) {
    if (a.values[v].defined() != b.values[v].defined())
      return concat("value ", v, " is defined on one side only");
    for (size_t i = 0; i < a.values[v].locals.size(); ++i) {
      const auto& left = a.values[v].locals[i];
      const auto d = oracle::compare(left, b.values[v].locals[i]);
      if (!d.equal())
        return concat("value ", v, " at position ", i, ": ", oracle::describe(d, left.scalar_type()));
    }
  }
  return "";
}

}  // namespace lockstep::suites
