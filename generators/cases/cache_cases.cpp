// SPDX-License-Identifier: Apache-2.0
// What an engine keeps of an op, it must not use for another: an op twice or more, each time with one
// ingredient of the decision changed, and at last as at first.
#include <algorithm>

#include "generators/cases/edges.h"
#include "generators/cases/programs.h"
#include "generators/cases/swarm.h"
#include "generators/ops/makers.h"
#include "generators/program/vary.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Arg;
using oracle::Call;
using oracle::Ref;

// One argument changed that is no tensor; nullopt if the call has none. Integers stay where they are `fixed`:
// indices fit one dimension only, and a correction its number of elements. In the integer lane all numbers
// stay: they say how large results are.
std::optional<std::vector<Arg>> one_changed(Builder& b, const Call& call, bool fixed) {
  if (oracle::is_own(call.op)) return std::nullopt;
  const Lookup lookup = [&](Ref ref) -> const at::Tensor& { return b.tensor(ref); };
  std::vector<size_t> places;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& arg = call.args[i];
    const bool whole =
        std::holds_alternative<int64_t>(arg) || std::holds_alternative<std::vector<int64_t>>(arg);
    const bool flag = std::holds_alternative<bool>(arg);
    if (is_value(call.op, i) && (flag || !b.settings().integer_lane) && !(whole && fixed))
      places.push_back(i);
  }
  if (places.empty()) return std::nullopt;
  const auto i = b.random().pick(places);
  const auto other = other_value(b.random(), call, i, lookup);
  if (!other) return std::nullopt;
  auto args = call.args;
  args[i] = *other;
  return args;
}

// The same call on detached operands: another autograd mode, the same Specs.
std::vector<Arg> detached(Builder& b, std::vector<Arg> args) {
  for (auto& arg : args)
    if (auto* ref = std::get_if<Ref>(&arg))
      if (b.call("lockstep::detach", {*ref}, {}, false)) *ref = b.results()[0];
  return args;
}

bool repeat(Builder& b) {
  const auto* op = draw_op(b, true);
  if (!op->make(b, *op)) return false;
  const auto first = b.last();
  const auto is_unsized = [&](Ref ref) { return !b.tensor(ref).defined(); };
  if (std::any_of(b.results().begin(), b.results().end(), is_unsized))
    return true;  // nothing is computed with them
  const auto operands = references(first.call);
  const bool fixed = op->make == variance || std::any_of(operands.begin(), operands.end(), [&](Ref ref) {
                       return b.dtype(ref) == c10::ScalarType::Long;
                     });
  const auto& args = first.call.args;
  switch (b.random().below(5)) {
    case 0:
    case 1:
      for (int64_t times = b.random().between(1, 2); times > 0; --times)
        if (auto changed = one_changed(b, first.call, fixed)) b.again(first, *changed);
      break;
    case 2:
      op->make(b, *op);
      break;  // other operands
    case 3:
      b.again(first, detached(b, args));
      break;
    default:
      b.again(first, args);
      op->make(b, *op);
      break;
  }
  b.again(first, args);
  return true;
}

// One tensor and a plain one, whose dimensions, and whether it is a number, say of which dtype the result is.
bool meet_in_all_forms(Builder& b) {
  const bool lane = b.settings().integer_lane;
  const auto& op = template_of(b.random().pick({"aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor"}));
  const Ref x = b.operand({.dtypes = kNumbers});
  const uint32_t own = bit_of(b.dtype(x));
  const auto dtype =
      lane ? own : b.random().pick<uint32_t>({bit_of(at::kFloat), bit_of(at::kDouble), kI64, own});
  std::vector<Ref> forms = {fresh_outside(b, {.dtypes = dtype, .shape = Shape{}, .grad = false}),
                            fresh_outside(b, {.dtypes = dtype, .shape = Shape{1}, .grad = false})};
  if (b.call(oracle::kItem.data(), {forms[0]}, {b.magnitude(forms[0]), {}}, false))
    forms.push_back(b.results()[0]);
  b.random().shuffle(forms);
  forms.push_back(forms[0]);
  for (const Ref plain : forms) emit(b, op, {x, plain}, {x, plain});
  return true;
}

// A gradient is cut up by views that may move what they look at; the same view of the Program's own may not.
bool view_as_a_gradient_does(Builder& b) {
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim());
  if (mesh.size(d) == 1) return false;
  const int64_t n = mesh.size(d) * b.random().between(1, 2);
  const auto cut = placed_along(mesh, d, Shard{0});
  const Ref x = b.fresh({.dtypes = kFloats, .shape = Shape{n}, .placement = replicated(mesh)});
  const Ref y = b.fresh({.dtypes = bit_of(b.dtype(x)), .shape = Shape{n}, .placement = replicated(mesh)});
  if (!b.requires_grad(x) || !b.requires_grad(y) ||
      !emit(b, template_of("aten::cat"), {std::vector<Ref>{x, y}, int64_t{0}}, {x, y}) ||
      !b.backward({.seeds = {cut}}))
    return false;
  const Ref seed = std::get<std::vector<Ref>>(b.last().call.args[1])[0];
  b.let_be_refused();
  return b.exactly("aten::slice.Tensor", {seed, int64_t{0}, int64_t{0}, n, int64_t{1}},
                   {b.magnitude(seed), {}});
}

// An optional tensor, and the very tensor as another optional argument: the operands are the same.
bool optional_in_anothers_place(Builder& b) {
  const auto& op = template_of(b.random().pick({"aten::layer_norm", "aten::clamp.Tensor"}));
  if (!op.allowed(b.settings(), true) || !op.make(b, op)) return false;
  const auto first = b.last();
  const auto& infos = oracle::find_operator(first.call.op).args;
  std::vector<size_t> places;
  Arg given = None{};
  for (size_t i = 0; i < first.call.args.size(); ++i) {
    if (infos[i].kind != oracle::ArgKind::kTensor || !infos[i].optional) continue;
    places.push_back(i);
    if (std::holds_alternative<Ref>(first.call.args[i])) given = first.call.args[i];
  }
  if (places.size() < 2 || std::holds_alternative<None>(given)) return false;
  b.random().shuffle(places);
  for (size_t k = 0; k < 3; ++k) {
    auto args = first.call.args;
    for (const size_t i : places) args[i] = None{};
    args[places[k % 2]] = given;
    b.again(first, args);
  }
  return true;
}

// The same tensors in the same order, cut into lists elsewhere: what each list is then cut by differs.
bool lists_cut_elsewhere(Builder& b) {
  if (b.settings().integer_lane) return false;
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim());
  if (mesh.size(d) == 1) return false;
  const auto cut = placed_along(mesh, d, Shard{0});
  std::vector<Ref> x;
  for (const bool whole : {false, false, true, false, false, true})
    x.push_back(b.fresh({.dtypes = kF32,
                         .shape = Shape{2 * mesh.size(d)},
                         .placement = whole ? replicated(mesh) : cut,
                         .grad = false}));
  // Parameters, gradients, momentum buffers; weight decay, momentum, rate, dampening, nesterov, maximize,
  // first.
  const auto step = [&](size_t n, double momentum) {
    const auto list = [&](size_t from) {
      const auto end = std::min(from + n, x.size());
      return std::vector<Ref>(x.begin() + static_cast<ptrdiff_t>(std::min(from, end)),
                              x.begin() + static_cast<ptrdiff_t>(end));
    };
    return b.exactly("aten::_fused_sgd_",
                     {list(0), list(n), list(2 * n), 0.0, momentum, 0.5, 0.0, false, false, true});
  };
  if (!step(3, 0.0)) return false;
  b.let_be_refused();
  return step(2, 0.5);
}

// Only a positive factor passes what pends: zero times a negative one is the other zero.
bool factor_of_another_sign(Builder& b) {
  const auto& op = template_of(b.random().pick({"aten::mul.Scalar", "aten::div.Scalar"}));
  if (!op.allowed(b.settings(), true)) return false;
  const auto& mesh = b.settings().mesh;
  const Partial sum{b.random().pick({ReduceOp::kSum, ReduceOp::kAvg})};
  const auto target = placed_along(mesh, b.random().below(mesh.ndim()), sum);
  const Ref x = b.fresh({.dtypes = kFloats});
  if (!b.call("aten::zeros_like", {x}, {}, false)) return false;
  const Ref pending = b.redistribute(b.results()[0], target);
  const double factor = b.random().pick({2.0, 0.5, -2.0, -0.5});
  for (const double sign : {1.0, -1.0, 1.0})
    if (!emit(b, op, {pending, sign * factor}, {pending})) return false;
  return true;
}

// Of two views that are alike but for where they begin in one memory, the places that a view of theirs names:
// it counts from where the memory begins.
bool memory_behind_another_view(Builder& b) {
  const auto length = b.random().between(2, 5), size = b.random().between(1, length - 1);
  const Ref x = b.fresh({.shape = Shape{length + 1}, .placement = replicated(b.settings().mesh)});
  for (const int64_t begin : {0, 1, 0}) {
    if (!b.exactly("aten::slice.Tensor", {x, int64_t{0}, begin, begin + length, int64_t{1}},
                   {b.magnitude(x), {}}))
      return false;
    const Ref view = b.results()[0];
    if (!b.exactly("aten::as_strided", {view, Shape{size}, Shape{1}, int64_t{1}}, {b.magnitude(x), {}}))
      return false;
  }
  return true;
}

// A formula of autograd writes what it has just made, which may move for it; the same write of the Program's
// own may not.
bool write_as_autograd_does(Builder& b) {
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim());
  if (mesh.size(d) == 1) return false;
  const int64_t n = b.random().between(2, 4), rows = n - 1, columns = 2 * mesh.size(d);
  const auto cut = placed_along(mesh, d, Shard{1});
  const Ref x = b.fresh({.dtypes = kFloats, .shape = Shape{n, columns}, .placement = replicated(mesh)});
  const Ref index =
      b.fresh({.dtypes = kI64, .shape = Shape{rows, columns}, .values = indices_below(n), .placement = cut});
  if (!b.requires_grad(x) || !emit(b, template_of("aten::gather"), {x, int64_t{0}, index}, {x}) ||
      !b.backward({.seeds = {cut}}))
    return false;
  const auto dtype = bit_of(b.dtype(x));
  const Ref own =
      b.fresh({.dtypes = dtype, .shape = b.shape(x), .placement = replicated(mesh), .grad = false});
  const Ref source = b.fresh({.dtypes = dtype, .shape = b.shape(index), .placement = cut, .grad = false});
  return emit(b, template_of("aten::scatter_add_"), {own, int64_t{0}, index, source}, {own, source}, rows);
}

// What nobody used of a split is zeros in its gradient, which every rank holds and no op cuts; of another the
// like is cut for nothing.
bool unused_beside_used(Builder& b) {
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim());
  if (mesh.size(d) == 1) return false;
  const Shape part = {b.random().between(1, 3), 2 * mesh.size(d)};
  const auto cut = placed_along(mesh, d, Shard{1});
  Builder::Backward how;
  const bool first = b.random().chance(50);
  for (const bool both : {first, !first}) {
    const Ref x =
        b.fresh({.dtypes = kF32, .shape = Shape{2 * part[0], part[1]}, .placement = replicated(mesh)});
    if (!b.requires_grad(x) ||
        !b.exactly("aten::split.Tensor", {x, part[0], int64_t{0}}, {b.magnitude(x), {}}))
      return false;
    const auto parts = b.results();
    if (both) {
      how.outputs.push_back(parts[0]);
      how.seeds.push_back(replicated(mesh));
    }
    how.outputs.push_back(parts[1]);
    how.seeds.push_back(cut);
  }
  return b.backward(how);
}

}  // namespace

oracle::Case cache_case(Random random) {
  for (uint64_t attempt = 0;; ++attempt) {
    Random own = random.split(attempt);
    auto settings = draw_settings(own, {.backward = 15});
    settings.families = kAllFamilies;
    Builder b(own, settings);
    using Kind = bool (*)(Builder&);
    const auto kind =
        settings.backward
            ? b.random().pick<Kind>({view_as_a_gradient_does, write_as_autograd_does, unused_beside_used})
            : b.random().weighted<Kind>({{15, repeat},
                                         {3, meet_in_all_forms},
                                         {1, optional_in_anothers_place},
                                         {1, factor_of_another_sign},
                                         {1, lists_cut_elsewhere},
                                         {1, memory_behind_another_view}});
    const bool made = kind(b);
    if (!made && attempt < 19) continue;
    if (b.calls() == 0) b.redistribute(b.operand({}));
    return finished(b, "cache");
  }
}

}  // namespace lockstep::generators
