// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/forgiveness.h"

#include <algorithm>
#include <array>
#include <functional>

#include "engine/values/error.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {
namespace {

constexpr std::string_view kMovesNothing = "it gives the tensor that it takes another name";
constexpr std::string_view kPlainFactory =
    "a factory without tensor arguments makes a plain tensor, which the engine may see only where an op "
    "reads it";

constexpr auto kForgiveness = std::to_array<Forgiveness>({
    {Forgiven::kAlone, "aten::clone",
     "whether autograd copies a gradient or keeps it depends on reference counts and strides; a copy changes "
     "no value"},
    {Forgiven::kAlone, "aten::empty_like", "memory without values, made for the op that writes it next"},
    {Forgiven::kFactory, "aten::zeros", kPlainFactory},
    {Forgiven::kFactory, "aten::ones", kPlainFactory},
    {Forgiven::kFactory, "aten::full", kPlainFactory},
    {Forgiven::kFactory, "aten::empty.memory_format", kPlainFactory},
    {Forgiven::kFactory, "aten::arange", kPlainFactory},
    {Forgiven::kFactory, "aten::arange.start", kPlainFactory},
    {Forgiven::kFactory, "aten::arange.start_step", kPlainFactory},
    {Forgiven::kFactory, "aten::scalar_tensor", kPlainFactory},
    {Forgiven::kFactory, "aten::_efficientzerotensor", kPlainFactory},
    {Forgiven::kFactory, "",
     "what is computed of such factories alone is plain on the engine too, which sees nothing of it"},
    {Forgiven::kSilent, "aten::detach", kMovesNothing},
    {Forgiven::kSilent, "aten::detach_", kMovesNothing},
    {Forgiven::kSilent, "aten::alias", kMovesNothing},
    {Forgiven::kSilent, "aten::lift_fresh", kMovesNothing},
    {Forgiven::kSilent, "", "an op without results makes no value"},
    {Forgiven::kVacuous, "", "tensors without elements are equal if their shapes are"},
    {Forgiven::kOut, "", "the engine runs out= variants as the functional op and a copy"},
    {Forgiven::kMean, "",
     "the engine adds what ranks share of a mean and divides once, as the stock kernel divides its sum"},
    {Forgiven::kNorm, "",
     "the engine adds powers, or compares magnitudes, of what ranks share of a norm and takes the root once"},
    {Forgiven::kRead, "",
     "the host has read these counts of a tensor, whose own value, which an explained difference has decided "
     "otherwise, they are"},
});

bool has_row(Forgiven kind, std::string_view op) {
  return std::any_of(kForgiveness.begin(), kForgiveness.end(),
                     [&](const Forgiveness& f) { return f.kind == kind && f.op == op; });
}

}  // namespace

const char* name(Forgiven kind) {
  static constexpr std::array kNames = {"alone", "factory", "silent", "vacuous",
                                        "out",   "mean",    "norm",   "read"};
  return kNames.at(static_cast<size_t>(kind));
}

std::span<const Forgiveness> forgiveness() {
  return kForgiveness;
}

const Forgiveness& row_of(Forgiven kind, std::string_view op) {
  const Forgiveness* any = nullptr;
  for (const Forgiveness& f : kForgiveness) {
    if (f.kind == kind && f.op == op) return f;
    if (f.kind == kind && f.op.empty()) any = &f;
  }
  if (any == nullptr) throw Broken(concat("nothing forgives ", op, " as ", name(kind)));
  return *any;
}

std::optional<Forgiven> alone(std::string_view op) {
  if (has_row(Forgiven::kAlone, op)) return Forgiven::kAlone;
  if (has_row(Forgiven::kFactory, op)) return Forgiven::kFactory;
  return std::nullopt;
}

bool has_elements(const TensorRecord& record) {
  return record.spec == nullptr || record.spec->numel() > 0;
}

bool is_vacuous(const TimelineEntry& entry) {
  return !entry.outputs.empty() && std::none_of(entry.outputs.begin(), entry.outputs.end(), has_elements);
}

bool is_vacuous(const std::vector<Effect>& effects) {
  return !effects.empty() && std::all_of(effects.begin(), effects.end(), [](const Effect& e) {
    return e.window.defined() && e.window.numel() == 0;
  });
}

std::optional<Forgiven> passed_over(const TimelineEntry& entry) {
  if (is_vacuous(entry)) return Forgiven::kVacuous;
  if (entry.outputs.empty() || has_row(Forgiven::kSilent, entry.op)) return Forgiven::kSilent;
  return entry.inputs.empty() ? alone(entry.op) : std::nullopt;  // its value is looked at when an op reads it
}

const Window* copied_by(const RecordedOp& op) {
  if (op.op->name == kClone) return &op.inputs.at(0);
  if (op.op->name != "aten::add.Tensor" || op.inputs[0].zeros() == op.inputs[1].zeros()) return nullptr;
  const Window &other = op.inputs[op.inputs[0].zeros() ? 1 : 0], &result = op.results.at(0);
  const bool same = other.dtype == result.dtype && other.shape == result.shape;
  return same && op.args[2].toScalar().toDouble() == 1 ? &other : nullptr;
}

bool is_known_zero(const RecordedOp& op) {
  return !op.results.empty() &&
         std::all_of(op.results.begin(), op.results.end(), std::mem_fn(&Window::zeros));
}

// On a CUDA device what is read is first rounded to the short dtype that is asked for, as its kernel does.
static bool is_first_of_mean(const RecordedOp& op, std::string_view part) {
  const bool rounds = op.device.is_cuda() && part == "aten::_to_copy";
  return stem(op.op->name) == "aten::mean" && (rounds || stem(part) == "aten::sum");
}

static bool is_first_of_norm(std::string_view norm, std::string_view part) {
  static constexpr std::array kFirst = {"aten::_to_copy", "aten::abs", "aten::ne", "aten::pow"};
  const bool of_one = stem(norm) == "aten::norm" || stem(norm) == "aten::linalg_vector_norm";
  const bool first = std::find(kFirst.begin(), kFirst.end(), stem(part)) != kFirst.end();
  return (of_one || stem(norm) == "aten::_foreach_norm") &&
         (first || (!of_one && stem(part) == "aten::linalg_vector_norm"));
}

static bool is_out_variant(const Operator& op) {
  return !op.args.empty() && op.args.back().written && !is_in_place(op.name);
}

bool is_out_of(const RecordedOp& op, const TimelineEntry& entry) {
  const std::string_view mine = op.op->name, its = entry.op;
  // Or it is the first part of its functional op in turn.
  const bool part = is_first_of_mean(op, its) || is_first_of_norm(mine, its);
  return is_out_variant(*op.op) && mine != its && (stem(mine) == stem(its) || part);
}

bool fills_nothing(const RecordedOp& op) {
  const auto has_none = [](const Window& w) { return w.numel() == 0; };
  return is_out_variant(*op.op) && std::all_of(op.results.begin(), op.results.end(), has_none);
}

// Whether several ranks have a part each, or a term, of what it reads. One rank runs the stock op.
static bool reads_shared(const TimelineEntry& entry) {
  const Spec& spec = *entry.inputs.at(0).spec;
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (spec.mesh().size(d) > 1 && !is_replicate(spec.placements()[static_cast<size_t>(d)])) return true;
  return false;
}

std::optional<Forgiven> composed(const RecordedOp& op, const TimelineEntry& entry) {
  const std::string_view name = op.op->name;
  if (!op.written.empty() || entry.inputs.empty()) return std::nullopt;
  if (is_first_of_mean(op, entry.op)) return Forgiven::kMean;
  // Of a list each norm is asked by itself.
  if (is_first_of_norm(name, entry.op) && (stem(name) == "aten::_foreach_norm" || reads_shared(entry)))
    return Forgiven::kNorm;
  return std::nullopt;
}

}  // namespace lockstep::oracle
