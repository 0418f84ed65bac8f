// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/twin.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "engine/values/error.h"
#include "oracle/judge/bound.h"
#include "oracle/judge/families.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/evaluate.h"
#include "oracle/plain/float64_call.h"
#include "oracle/program/values.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

constexpr int kDisturbances = 6;
constexpr uint64_t kFlips =
    5;  // of signs that fall together in half the cases; two in turn are each other's opposite
constexpr double kSafety = 8;  // a few samples do not meet the worst of all signs

bool is_double(const at::Tensor& t) {
  return t.defined() && t.scalar_type() == at::kDouble;
}

// ---- the twin ----

uint64_t widened_bits(uint64_t bits, c10::ScalarType dtype) {
  const auto word = at::empty({1}, at::TensorOptions(dtype));
  std::memcpy(word.mutable_data_ptr(), &bits, word.element_size());
  const auto wide = word.to(at::kDouble);
  std::memcpy(&bits, wide.const_data_ptr(), sizeof bits);
  return bits;
}

// Whether some op reads it as float, whatever its other operands are.
bool is_always_float(const Program& program, int64_t input) {
  for (const auto& call : program.calls) {
    if (is_own(call.op)) continue;
    const auto& known = find_operator(call.op).args;
    for (size_t a = 0; a < call.args.size(); ++a)
      if (const auto* ref = std::get_if<Ref>(&call.args[a]);
          ref != nullptr && ref->id == input && oracle::is_always_float(known[a]))
        return true;
  }
  return false;
}

void widen(Input& input) {
  if (!c10::isFloatingType(input.dtype)) return;
  for (auto& bits : input.values.bits) bits = widened_bits(bits, input.dtype);
  input.dtype = at::kDouble;
}

// ---- how coarse the Case rounds ----

struct Coarseness {
  c10::ScalarType dtype = at::kDouble;  // that rounds most
  double smallest = 0;                  // below it, precision is absolute
};

Coarseness coarseness(const std::vector<at::Tensor>& plain) {
  Coarseness c;
  for (const auto& t : plain) {
    if (!t.defined() || !t.is_floating_point()) continue;
    if (unit_roundoff(t.scalar_type()) > unit_roundoff(c.dtype)) c.dtype = t.scalar_type();
    const double half = std::ldexp(1.0, -24), other = std::ldexp(1.0, -133);
    if (t.scalar_type() != at::kDouble)
      c.smallest = std::max(c.smallest, t.scalar_type() == at::kHalf ? half : other);
  }
  return c;
}

// ---- the bound of each op of a run in float64 ----

// Whether the op makes or writes numbers there: not a view, nor zeros of autograd, which are in no memory.
bool holds_doubles(const Effect& e) {
  return e.window.defined() && !e.window.zeros() && e.window.dtype == at::kDouble &&
         (e.input < 0 || e.written);
}

struct OpBounds {
  const Recording& recording;
  Coarseness coarse;
  int64_t ranks;

  // What an op may round without a rule for it: its result, as often as it is handed on.
  at::Tensor plainly(const at::Tensor& value) const {
    const double u = unit_roundoff(coarse.dtype) * static_cast<double>(ranks + 2);
    return at::add(at::mul(value.abs(), u), coarse.smallest);
  }

  at::Tensor by(const Reference& r, const at::Tensor& value) const {
    if (!r.magnitude.defined()) return plainly(value);
    const double u = r.factor + unit_roundoff(coarse.dtype) * static_cast<double>(ranks + 2);
    auto bound = at::add(at::mul(r.magnitude, u), r.floor + coarse.smallest);
    return r.lost.defined() ? at::add(bound, r.lost) : bound;
  }

  std::vector<Reference> references_of(const RecordedOp& op, const std::vector<Effect>& effects) const {
    const auto* family = find_family(op.op->name);
    if (family == nullptr || family->bound == Bound::kTwoPaths) return {};
    std::vector<WideInput> inputs;
    for (const auto& window : op.inputs)
      inputs.push_back(window.defined() ? oracle::widen({recording.read(window)}, {}, {}) : WideInput{});
    return references(*family, op, effects, inputs, coarse.dtype);
  }

  // Where it reads NaN, a kernel of two paths may give whatever either gives.
  at::Tensor with_paths(const RecordedOp& op, const at::Tensor& bound) const {
    const auto* family = find_family(op.op->name);
    if (family == nullptr || family->bound != Bound::kTwoPaths) return bound;
    at::Tensor open = at::zeros(bound.sizes(), at::kBool);
    for (const auto& window : op.inputs)
      if (window.defined() && window.dtype == at::kDouble && bound.sizes() == window.shape)
        open.logical_or_(at::isnan(recording.read(window)));
    return bound.masked_fill(open, std::numeric_limits<double>::infinity());
  }

  // For each effect of the op; undefined where nothing is rounded: views, integers, zeros of autograd, what
  // was drawn.
  std::vector<at::Tensor> operator()(const RecordedOp& op) const {
    const auto list = effects(op);
    std::vector<at::Tensor> bounds(list.size());
    if (op.op->random) return bounds;
    const auto known = references_of(op, list);
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& e = list[i];
      if (!holds_doubles(e)) continue;
      const auto value = recording.read(e.window);
      const bool fits =
          i < known.size() && (!known[i].magnitude.defined() || known[i].magnitude.sizes() == value.sizes());
      bounds[i] = with_paths(op, fits ? by(known[i], value) : plainly(value));
    }
    return bounds;
  }
};

// ---- runs in float64 ----

class Runs {
 public:
  Runs(const Case& c, const std::vector<at::Tensor>& plain)
      : case_(c), plain_(plain), inputs_(make_inputs(c)) {}

  std::vector<at::Tensor> run(const Float64Run& how = {}) const {
    SimulatedSource source;
    return evaluate_f64(case_, source, plain_, how);
  }
  const std::vector<InputTensors>& inputs() const { return inputs_; }
  const Case& of() const { return case_; }

 private:
  const Case& case_;
  const std::vector<at::Tensor>& plain_;
  std::vector<InputTensors> inputs_;
};

// Numbers between a half and one, of either sign.
void disturb(const at::Tensor& value, const at::Tensor& bound, std::mt19937_64& random) {
  const at::DisableRecordFunctionGuard unseen;
  auto noise = at::empty(bound.sizes(), at::kDouble);
  auto* n = noise.mutable_data_ptr<double>();
  for (int64_t i = 0; i < noise.numel(); ++i) {
    const double size = 0.5 + 0.5 * std::ldexp(static_cast<double>(random() >> 11), -53);
    n[i] = (random() & 1) != 0 ? size : -size;
  }
  value.add_(at::mul(noise, bound));
}

// Terms that pend are folded in some order.
at::Tensor fold_bound(const Runs& runs, size_t i, const Coarseness& coarse) {
  const auto& tensors = runs.inputs()[i];
  if (!tensors.global.is_floating_point() || !has_partial(runs.of().placements[i])) return {};
  auto spec = spec_of(runs.of(), static_cast<int64_t>(i));
  spec = spec.with_tensor(spec.shape(), spec.stride(), at::kDouble);
  std::vector<at::Tensor> magnitudes;
  for (const auto& local : tensors.locals) magnitudes.push_back(local.to(at::kDouble).abs());
  const double u = unit_roundoff(coarse.dtype) * static_cast<double>(runs.of().mesh.size());
  return at::mul(assemble(magnitudes, spec).global, u);
}

std::vector<at::Tensor> disturbed(const Runs& runs, const std::vector<std::vector<at::Tensor>>& bounds,
                                  const std::vector<at::Tensor>& folds, uint64_t seed) {
  std::mt19937_64 random(seed);
  Recording recording;
  recording.done = [&](const RecordedOp& op) {
    const size_t k = recording.ops.size();
    const auto list = effects(op);
    for (size_t i = 0; k < bounds.size() && i < list.size() && i < bounds[k].size(); ++i)
      if (bounds[k][i].defined())
        disturb(tensor_in(list[i].window.storage, list[i].window), bounds[k][i], random);
  };
  const auto change = [&](std::vector<at::Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (folds[i].defined()) disturb(inputs[i], folds[i], random);
  };
  return runs.run({change, &recording});
}

// ---- the signs of zeros ----

// Whether the sign of a zero of its result is up to the order of its terms, or to where an element lies.
bool chooses_sign(const Operator& op) {
  const auto* family = find_family(op.name);
  if (family != nullptr && (family->zero_sign || !is_pointwise(op))) return true;
  static constexpr std::array<std::string_view, 12> kOfEqualOnes = {
      "relu",    "amax", "amin", "max",   "min",       "maximum",
      "minimum", "fmax", "fmin", "clamp", "clamp_max", "clamp_min"};
  return std::find(kOfEqualOnes.begin(), kOfEqualOnes.end(), family_key(op.name)) != kOfEqualOnes.end();
}

// The greater of 0 and -0 is either.
bool folds_by_choice(const Placement& p) {
  return is_partial(p, ReduceOp::kMin) || is_partial(p, ReduceOp::kMax);
}

// @param which of the two halves of the zeros that `random` draws
void flip_zeros(const at::Tensor& value, std::mt19937_64& random, uint64_t which) {
  const at::DisableRecordFunctionGuard unseen;
  auto factor = at::ones(value.sizes(), at::kDouble);
  auto* f = factor.mutable_data_ptr<double>();
  for (int64_t i = 0; i < factor.numel(); ++i)
    if ((random() & 1) == which) f[i] = -1;
  value.mul_(at::where(at::eq(value, 0), factor, at::ones({}, at::kDouble)));
}

// Zeros of either sign where an op chooses, and in all that is computed after it, or beside what pends: it
// may be computed of terms, and -0 * 3 + -0 * -1 is 0, while -0 * (3 - 1) is -0.
// Two runs in turn flip one zero each way.
std::vector<at::Tensor> with_other_signs(const Runs& runs, uint64_t k) {
  std::mt19937_64 random(k / 2);
  bool open = false;
  each_target(runs.of(), [&](const Target& target) { open |= has_partial(target); });
  Recording recording;
  recording.done = [&](const RecordedOp& op) {
    if (op.op->random) return;
    open = open || chooses_sign(*op.op);
    if (!open) return;
    for (const auto& e : effects(op))
      if (holds_doubles(e)) flip_zeros(tensor_in(e.window.storage, e.window), random, k % 2);
  };
  const auto change = [&](std::vector<at::Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& placed = runs.of().placements[i].placements;
      if (is_double(inputs[i]) && std::any_of(placed.begin(), placed.end(), folds_by_choice))
        flip_zeros(inputs[i], random, k % 2);
    }
  };
  return runs.run({change, &recording});
}

at::Tensor distance(const at::Tensor& a, const at::Tensor& b) {
  const auto d = at::sub(a, b).abs();
  const auto both_nan = at::logical_and(at::isnan(a), at::isnan(b));
  const auto same = at::logical_or(at::eq(a, b), both_nan);
  const auto infinite = at::full({}, std::numeric_limits<double>::infinity(), at::kDouble);
  return at::where(same, at::zeros({}, at::kDouble), at::where(at::isnan(d), infinite, d));
}

// ---- a rank's part, lost, doubled or averaged ----

using Change = std::function<void(std::vector<at::Tensor>& inputs)>;

void cut_parts(size_t input, const at::Tensor& global, int64_t dim, int64_t ranks,
               std::vector<Change>& changes) {
  const int64_t n = global.dim() == 0 ? 1 : global.size(dim), piece = (n + ranks - 1) / ranks;
  for (int64_t begin = 0; begin < n; begin += piece)
    for (const double factor : {0.0, 2.0})
      changes.push_back([=](std::vector<at::Tensor>& inputs) {
        auto& t = inputs[input];
        (t.dim() == 0 ? t : t.narrow(dim, begin, std::min(piece, n - begin))).mul_(factor);
      });
  changes.push_back([=](std::vector<at::Tensor>& inputs) { inputs[input].div_(static_cast<double>(ranks)); });
}

// @param mesh_dim pends.
void term_parts(const Runs& runs, size_t input, int64_t mesh_dim, std::vector<Change>& changes) {
  const auto spec = spec_of(runs.of(), static_cast<int64_t>(input));
  const auto& locals = runs.inputs()[input].locals;
  const int64_t ranks = spec.mesh().size(mesh_dim);
  const auto scaled = [&](int64_t which, double factor) {
    std::vector<at::Tensor> changed;
    for (int64_t p = 0; p < spec.mesh().size(); ++p) {
      const bool hit = which < 0 || spec.mesh().coordinate(p)[static_cast<size_t>(mesh_dim)] == which;
      const auto& local = locals[static_cast<size_t>(p)];
      changed.push_back(hit ? at::mul(local, factor) : local);
    }
    changes.push_back([input, global = assemble(changed, spec).global](std::vector<at::Tensor>& inputs) {
      inputs[input].copy_(global);
    });
  };
  for (int64_t r = 0; r < ranks; ++r)
    for (const double factor : {0.0, 2.0}) scaled(r, factor);
  scaled(-1, 1 / static_cast<double>(ranks));
}

std::vector<Change> changes_of(const Runs& runs) {
  std::vector<Change> changes;
  const auto& mesh = runs.of().mesh;
  for (size_t i = 0; i < runs.inputs().size(); ++i) {
    const auto& global = runs.inputs()[i].global;
    if (!is_double(global) || global.numel() == 0) continue;
    for (int64_t d = 0; d < mesh.ndim() && !is_plain(runs.of().placements[i]); ++d) {
      const auto& placement = runs.of().placements[i].placements[static_cast<size_t>(d)];
      if (mesh.size(d) == 1) continue;
      if (is_partial(placement))
        term_parts(runs, i, d, changes);
      else
        cut_parts(i, global, std::max<int64_t>(shard_dim(placement), 0), mesh.size(d), changes);
    }
  }
  return changes;
}

}  // namespace

Case float64_twin(const Case& c) {
  Case twin = c;
  for (size_t i = 0; i < twin.program.inputs.size(); ++i)
    if (!is_always_float(c.program, static_cast<int64_t>(i))) widen(twin.program.inputs[i]);
  for (auto& call : twin.program.calls) {
    LOCKSTEP_CHECK(call.op != "aten::view.dtype", "[twin] ", call.op,
                   " reads bits, which are others in float64");
    for (auto& arg : call.args)
      if (auto* dtype = std::get_if<c10::ScalarType>(&arg); dtype != nullptr && c10::isFloatingType(*dtype))
        *dtype = at::kDouble;
  }
  return twin;
}

Reach reach_of(const Case& c, const std::vector<at::Tensor>& plain) {
  const Runs runs(c, plain);
  const auto coarse = coarseness(plain);
  Recording recording;
  const auto answers = runs.run({nullptr, &recording});
  const OpBounds bound{recording, coarse, c.mesh.size()};
  std::vector<std::vector<at::Tensor>> bounds;
  for (const auto& op : recording.ops) bounds.push_back(bound(op));
  std::vector<at::Tensor> folds;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) folds.push_back(fold_bound(runs, i, coarse));
  Reach result;
  for (const auto& a : answers)
    result.values.push_back({a, is_double(a) ? at::zeros(a.sizes(), at::kDouble) : at::Tensor()});
  for (int k = 0; k < kDisturbances; ++k) {
    const auto values =
        disturbed(runs, bounds, folds, c.program.seed * kDisturbances + static_cast<uint64_t>(k));
    for (size_t v = 0; v < values.size(); ++v) {
      auto& value = result.values[v];
      if (value.reach.defined())
        value.reach = at::maximum(value.reach, at::mul(distance(values[v], value.answer), kSafety));
      else if (value.answer.defined())
        value.settled = value.settled && at::equal(values[v], value.answer);
    }
  }
  return result;
}

std::vector<at::Tensor> open_signs(const Case& c, const std::vector<at::Tensor>& plain) {
  const Runs runs(c, plain);
  const auto answers = runs.run();
  std::vector<at::Tensor> open;
  for (const auto& a : answers) open.push_back(is_double(a) ? at::zeros(a.sizes(), at::kBool) : at::Tensor());
  for (uint64_t k = 0; k < kFlips; ++k) {
    const auto values = with_other_signs(runs, k);
    for (size_t v = 0; v < values.size(); ++v)
      if (open[v].defined()) open[v].logical_or_(at::ne(at::signbit(values[v]), at::signbit(answers[v])));
  }
  return open;
}

std::vector<bool> blind_spots(const Case& c, const std::vector<at::Tensor>& plain, const Reach& reach) {
  const Runs runs(c, plain);
  std::vector<bool> blind(reach.values.size(), false);
  for (const auto& change : changes_of(runs)) {
    const auto values = runs.run({change, nullptr});
    for (size_t v = 0; v < values.size(); ++v) {
      const auto& value = reach.values[v];
      if (blind[v] || !value.reach.defined()) continue;
      const auto d = distance(values[v], value.answer);
      blind[v] = at::gt(d, 0).any().item<bool>() && !at::gt(d, value.reach).any().item<bool>();
    }
  }
  return blind;
}

}  // namespace lockstep::oracle
