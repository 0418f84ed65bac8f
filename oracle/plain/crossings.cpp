// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/crossings.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/ownership.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::oracle {
namespace {

using Tensors = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// How a tensor lies on the mesh, and its gradient.
struct Sides : torch::CustomClassHolder {
  Sides(SpecPtr v, SpecPtr g, Recording* r) : value(std::move(v)), gradient(std::move(g)), recording(r) {}
  SpecPtr value, gradient;
  Recording* recording;
};
using SidesPtr = c10::intrusive_ptr<Sides>;

SidesPtr kept_in(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Sides>(ctx->saved_data["sides"].toCapsule());
}
void keep(AutogradContext* ctx, const SidesPtr& sides) {
  ctx->set_materialize_grads(false);  // where no gradient arrives none goes back
  ctx->saved_data["sides"] = at::IValue::make_capsule(sides);
}

// What pends becomes whole on the way back, and the other way round nothing has to pend.
Placements settled(Placements placements) {
  for (Placement& p : placements)
    if (is_partial(p)) p = Replicate{};
  return placements;
}

// Those of the way back of what leaves.
SidesPtr turned(const Sides& sides) {
  const Spec& spec = *sides.gradient;
  return c10::make_intrusive<Sides>(
      sides.gradient,
      std::make_shared<const Spec>(spec.with_placements(settled(spec.placements()), spec.order())),
      sides.recording);
}

// Of what comes back: each term has the gradient of the sum, whose own gradient is hence the sum over them.
SidesPtr spread_over_terms(const Sides& sides) {
  Placements terms = sides.value->placements();
  for (Placement& p : terms)
    if (is_partial(p)) p = Partial{ReduceOp::kSum};
  const Spec& spec = *sides.gradient;
  return c10::make_intrusive<Sides>(sides.gradient,
                                    std::make_shared<const Spec>(spec.with_placements(terms, spec.order())),
                                    sides.recording);
}

// ---- the two ways ----

// What each rank holds of a value whose terms these are; of what does not pend there is one.
Tensors slices_of(const Tensors& terms, const Spec& spec) {
  const SlicingPtr plan = slicing_of(spec);
  Tensors own, locals;
  for (const at::Tensor& term : terms) own.push_back(term.clone());
  for (size_t p = 0; p < plan->term.size(); ++p)
    locals.push_back(slice(own.at(as_size(plan->term[p])), spec, static_cast<int64_t>(p)));
  return locals;
}

// One device has a value whole: it is a term, and the others add nothing to it.
Tensors terms_of_whole(const at::Tensor& whole, const Spec& spec) {
  Tensors terms = {whole};
  while (std::ssize(terms) < slicing_of(spec)->terms)
    terms.push_back(at::full_like(whole, identity(ReduceOp::kSum, whole.scalar_type())));
  return terms;
}

Tensors terms_of(const Tensors& locals, const Spec& spec) {
  const SlicingPtr plan = slicing_of(spec);
  Tensors terms;
  for (int64_t t = 0; t < plan->terms; ++t)
    terms.push_back(at::empty_strided(spec.shape(), spec.stride(), at::TensorOptions(spec.dtype())));
  for (size_t p = 0; p < locals.size(); ++p)
    if (plan->first[p] == static_cast<int64_t>(p))
      paste(locals[p], *plan, static_cast<int64_t>(p), terms[as_size(plan->term[p])]);
  return terms;
}

// Of a dense copy, as every redistribution makes: it lies as the value does.
SpecPtr lying_as(const at::Tensor& value, const DeviceMesh& mesh, const Target& target) {
  const auto stride = local_stride(value.sizes(), value.strides(), value.sizes());
  return std::make_shared<const Spec>(mesh, target.placements, value.sizes().vec(),
                                      std::vector<int64_t>(stride.begin(), stride.end()), value.scalar_type(),
                                      target.order);
}

Tensors leave(const at::Tensor& whole, const SpecPtr& placed, Recording* recording) {
  const at::DisableRecordFunctionGuard unseen;
  const auto spec = lying_as(whole, placed->mesh(), {placed->placements(), placed->order()});
  Tensors locals = slices_of(terms_of_whole(whole, *spec), *spec);
  if (recording != nullptr)
    recording->add_crossing({.op = "lockstep::to_local",
                             .back = nullptr,
                             .pends = spec->has_partial() ? spec : nullptr,
                             .values = [spec](const Tensors& from) { return slices_of(from, *spec); }},
                            {whole}, locals);
  return locals;
}

at::Tensor come_back(const Tensors& locals, const SpecPtr& spec, Recording* recording) {
  const at::DisableRecordFunctionGuard unseen;
  const SlicingPtr plan = slicing_of(*spec);
  for (size_t p = 0; p < locals.size(); ++p)
    LOCKSTEP_CHECK(locals[p].sizes() == at::IntArrayRef(plan->shapes[p]), "[", kLocalMap, "] position ", p,
                   " makes ", locals[p].sizes(), ", but ", to_string(*spec), " holds ",
                   at::IntArrayRef(plan->shapes[p]), " there; place the result as the op makes it");
  const at::Tensor whole = fold_terms(terms_of(locals, *spec), plan->ops, plan->sizes);
  if (recording != nullptr)
    recording->add_crossing(
        {.op = "", .back = spec, .values = [spec](const Tensors& from) { return terms_of(from, *spec); }},
        locals, {whole});
  return whole;
}

// Each of the two pairs below is the other's way back, so that gradients have gradients.
struct FromLocal : torch::autograd::Function<FromLocal> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList locals, const SidesPtr& sides);
  static variable_list backward(AutogradContext* ctx, const variable_list& grads);
};

struct ToLocal : torch::autograd::Function<ToLocal> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& value, const SidesPtr& sides) {
    keep(ctx, sides);
    return leave(value.detach(), sides->value, sides->recording);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto sides = turned(*kept_in(ctx));
    if (std::none_of(grads.begin(), grads.end(), [](auto& g) { return g.defined(); })) return {{}, {}};
    variable_list all = grads;
    const SlicingPtr plan = slicing_of(*sides->value);
    for (size_t p = 0; p < all.size(); ++p)
      if (!all[p].defined()) all[p] = at::zeros(plan->shapes[p], at::TensorOptions(sides->value->dtype()));
    return {FromLocal::apply(at::TensorList(all), sides), at::Tensor()};
  }
};

at::Tensor FromLocal::forward(AutogradContext* ctx, at::TensorList locals, const SidesPtr& sides) {
  keep(ctx, sides);
  Tensors plain;
  for (const at::Tensor& local : locals) plain.push_back(local.detach());
  return come_back(plain, sides->value, sides->recording);
}

variable_list FromLocal::backward(AutogradContext* ctx, const variable_list& grads) {
  const auto sides = spread_over_terms(*kept_in(ctx));
  variable_list result(as_size(sides->value->mesh().size()));
  if (grads.at(0).defined()) result = ToLocal::apply(grads[0], sides);
  result.emplace_back();
  return result;
}

at::Tensor crossed(const at::Tensor& value, const std::string& op, const SpecPtr& back,
                   Recording* recording) {
  const at::DisableRecordFunctionGuard unseen;
  const at::Tensor copy = value.detach().clone();
  recording->add_crossing(
      {.op = op, .back = back, .values = [](const Tensors& from) { return Tensors{from.at(0).clone()}; }},
      {value}, {copy});
  return copy;
}

// A plain tensor, the same on every rank, on the mesh.
struct Spread : torch::autograd::Function<Spread> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& plain, const SidesPtr& sides) {
    keep(ctx, sides);
    return crossed(plain, "", sides->gradient, sides->recording);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads);
};

// Every rank's copy is the same one: its gradient is, too.
struct FullTensor : torch::autograd::Function<FullTensor> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& value, const SidesPtr& sides) {
    keep(ctx, sides);
    return crossed(value, std::string(kFullTensor), nullptr, sides->recording);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads.at(0).defined()) return {{}, {}};
    return {Spread::apply(grads[0], kept_in(ctx)), at::Tensor()};
  }
};

variable_list Spread::backward(AutogradContext* ctx, const variable_list& grads) {
  if (!grads.at(0).defined()) return {{}, {}};
  return {FullTensor::apply(grads[0], kept_in(ctx)), at::Tensor()};
}

// ---- the statements ----

at::Tensor copied(const at::Tensor& value, const Target& target, Recording* recording) {
  if (recording == nullptr) return value.clone();
  const at::DisableRecordFunctionGuard unseen;
  at::Tensor copy = value.clone();
  recording->add_redistribution(value, copy, target);
  return copy;
}

at::Tensor whole_of(const at::Tensor& value, const DeviceMesh& mesh, Recording* recording) {
  if (recording == nullptr) return value.clone();
  const auto everywhere = std::make_shared<const Spec>(mesh, Placements(as_size(mesh.ndim()), Replicate{}),
                                                       value.sizes().vec(), value.scalar_type());
  return FullTensor::apply(value, c10::make_intrusive<Sides>(everywhere, everywhere, recording));
}

at::Tensor number_of(std::string_view op, const Tensors& of, Recording* recording) {
  const at::DisableRecordFunctionGuard unseen;
  at::Tensor number = read_number(op, of);
  if (recording != nullptr)
    recording->add_crossing(
        {.op = op == kItem ? "aten::_local_scalar_dense" : "aten::equal",
         .back = nullptr,
         .values = [op = std::string(op)](const Tensors& own) { return Tensors{read_number(op, own)}; }},
        of, {number});
  return number;
}

at::Tensor mapped(const LocalMap& map, const Tensors& operands, const DeviceMesh& mesh,
                  Recording* recording) {
  const c10::AutoGradMode mode(at::GradMode::is_enabled() && !is_in_place(map.op));
  std::vector<Tensors> locals;
  for (size_t i = 0; i < operands.size(); ++i) {
    locals.push_back(ToLocal::apply(
        operands[i], c10::make_intrusive<Sides>(lying_as(operands[i], mesh, map.in[i]),
                                                lying_as(operands[i], mesh, map.gradients[i]), recording)));
  }
  Tensors results;
  for (size_t p = 0; p < as_size(mesh.size()); ++p) {
    Tensors mine;
    for (const Tensors& all : locals) mine.push_back(all[p]);
    results.push_back(run_mapped(map, mine));
  }
  const auto stride = is_in_place(map.op) ? lying_as(operands.at(0), mesh, map.in.at(0))->stride()
                                          : contiguous_strides(map.shape);
  const auto spec = [&](const Placements& placements) {
    return std::make_shared<const Spec>(mesh, placements, map.shape, stride, results.at(0).scalar_type(),
                                        map.out.order);
  };
  return FromLocal::apply(
      at::TensorList(results),
      c10::make_intrusive<Sides>(spec(map.out.placements), spec(settled(map.out.placements)), recording));
}

}  // namespace

Placing on_one_device(const DeviceMesh& mesh, Recording* recording) {
  return {[=](const at::Tensor& value, const Target& target) { return copied(value, target, recording); },
          [=, &mesh](const at::Tensor& value) { return whole_of(value, mesh, recording); },
          [=](std::string_view op, const Tensors& of) { return number_of(op, of, recording); },
          [=, &mesh](const LocalMap& map, const Tensors& operands) {
            return mapped(map, operands, mesh, recording);
          }};
}

}  // namespace lockstep::oracle
