// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/crossings.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::oracle {
namespace {

using Tensors = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// How a tensor lies on the mesh, and its gradient; and along which mesh dimensions ranks have one part of it
// together, which one device has whole.
struct Sides : torch::CustomClassHolder {
  Sides(SpecPtr v, SpecPtr g, std::vector<int64_t> k, Recording* r)
      : value(std::move(v)), gradient(std::move(g)), kept(std::move(k)), recording(r) {}
  SpecPtr value, gradient;
  std::vector<int64_t> kept;
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
      sides.kept, sides.recording);
}

// Of what comes back: each term has the gradient of the sum, whose own gradient is hence the sum over them.
SidesPtr spread_over_terms(const Sides& sides) {
  Placements terms = sides.value->placements();
  for (Placement& p : terms)
    if (is_partial(p)) p = Partial{ReduceOp::kSum};
  const Spec& spec = *sides.gradient;
  return c10::make_intrusive<Sides>(sides.gradient,
                                    std::make_shared<const Spec>(spec.with_placements(terms, spec.order())),
                                    sides.kept, sides.recording);
}

// Of which each position of the mesh has its part, the same along kept dimensions.
Spec of_parts(const Spec& placed, const std::vector<int64_t>& kept) {
  Placements placements = placed.placements();
  for (const int64_t d : kept) placements[as_size(d)] = Replicate{};
  return placed.with_placements(placements, placed.order());
}

// ---- the two ways ----

// Values cross in the host's memory, and are on the device of the mesh on both sides. What each rank holds of
// a value whose terms these are; of what does not pend there is one.
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

Tensors leave(const at::Tensor& whole, const Sides& sides) {
  const at::DisableRecordFunctionGuard unseen;
  const Spec& placed = *sides.value;
  const auto spec = std::make_shared<const Spec>(
      of_parts(*lying_as(whole, placed.mesh(), {placed.placements(), placed.order()}), sides.kept));
  Tensors locals = on_mesh(placed.mesh(), slices_of(terms_of_whole(in_host(whole), *spec), *spec));
  if (sides.recording != nullptr)
    sides.recording->add_crossing({.op = "lockstep::to_local",
                                   .back = nullptr,
                                   .pends = spec->has_partial() ? spec : nullptr,
                                   .values = [spec](const Tensors& from) { return slices_of(from, *spec); }},
                                  {whole}, locals);
  return locals;
}

at::Tensor come_back(const Tensors& locals, const Sides& sides) {
  const at::DisableRecordFunctionGuard unseen;
  const Spec spec = of_parts(*sides.value, sides.kept);
  const SlicingPtr plan = slicing_of(spec);
  for (size_t p = 0; p < locals.size(); ++p)
    LOCKSTEP_CHECK(locals[p].sizes() == at::IntArrayRef(plan->shapes[p]), "[",
                   sides.kept.empty() ? kLocalMap : kMeshMap, "] position ", p, " makes ", locals[p].sizes(),
                   ", but ", to_string(spec), " holds ", at::IntArrayRef(plan->shapes[p]),
                   " there; place the result as the op makes it");
  const at::Tensor whole =
      on_mesh(spec.mesh(), fold_terms(terms_of(in_host(locals), spec), plan->ops, plan->sizes));
  if (sides.recording != nullptr)
    sides.recording->add_crossing({.op = "",
                                   .back = sides.value,
                                   .values = [spec](const Tensors& from) { return terms_of(from, spec); }},
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
    return leave(value.detach(), *sides);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto sides = turned(*kept_in(ctx));
    if (std::none_of(grads.begin(), grads.end(), [](auto& g) { return g.defined(); })) return {{}, {}};
    variable_list all = grads;
    const SlicingPtr plan = slicing_of(of_parts(*sides->value, sides->kept));
    for (size_t p = 0; p < all.size(); ++p)
      if (!all[p].defined())
        all[p] =
            at::zeros(plan->shapes[p],
                      at::TensorOptions(sides->value->dtype()).device(sides->value->mesh().device_type()));
    return {FromLocal::apply(at::TensorList(all), sides), at::Tensor()};
  }
};

at::Tensor FromLocal::forward(AutogradContext* ctx, at::TensorList locals, const SidesPtr& sides) {
  keep(ctx, sides);
  Tensors plain;
  for (const at::Tensor& local : locals) plain.push_back(local.detach());
  return come_back(plain, *sides);
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
  return FullTensor::apply(
      value, c10::make_intrusive<Sides>(everywhere, everywhere, std::vector<int64_t>(), recording));
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

// What lies so lies on the flattened mesh as along each dimension of this one.
void check_flat(const Spec& spec) {
  const Spec flat(DeviceMesh({spec.mesh().size()}).on(spec.mesh().device_type()), {spec.placements().at(0)},
                  spec.shape(), spec.dtype());
  for (int64_t p = 0; p < spec.mesh().size(); ++p)
    LOCKSTEP_CHECK(owned(spec, p) == owned(flat, p), "[", kMeshMap, "] position ", p,
                   " holds another part of ", to_string(spec), " than of the same on the flattened mesh, ",
                   to_string(flat));
}

at::Tensor mapped(const LocalMap& map, const Tensors& operands, const DeviceMesh& mesh,
                  Recording* recording) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (map.keeps(d)) kept.push_back(d);
  const c10::AutoGradMode mode(at::GradMode::is_enabled() && !is_in_place(map.op));
  std::vector<Tensors> locals;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto in = lying_as(operands[i], mesh, map.in[i]);
    if (map.flat) check_flat(*in);
    const auto gradient = lying_as(operands[i], mesh, map.gradients[i]);
    locals.push_back(ToLocal::apply(operands[i], c10::make_intrusive<Sides>(in, gradient, kept, recording)));
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
  const auto out = spec(map.out.placements);
  if (map.flat) check_flat(*out);
  return FromLocal::apply(
      at::TensorList(results),
      c10::make_intrusive<Sides>(out, spec(settled(map.out.placements)), kept, recording));
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
