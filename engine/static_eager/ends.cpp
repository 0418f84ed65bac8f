// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/ends.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/move/execute.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/operands.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldEnds : torch::CustomClassHolder {
  explicit HeldEnds(std::vector<End> all) : ends(std::move(all)) {}
  std::vector<End> ends;
};
c10::IValue keep(std::vector<End> ends) {
  return at::IValue::make_capsule(c10::make_intrusive<HeldEnds>(std::move(ends)));
}
const std::vector<End>& kept(const c10::IValue& capsule) {
  return c10::static_intrusive_pointer_cast<HeldEnds>(capsule.toCapsule())->ends;
}

void check_once() {
  LOCKSTEP_CHECK(!at::GradMode::is_enabled(),
                 "[static_eager] gradients of gradients do not pass what runs on plain tensors; run the step "
                 "eagerly, or without create_graph");
}

// What each rank has, as a DTensor.
at::Tensor joined(const PerRank<at::Tensor>& locals, const SpecPtr& spec, const CommPtr& comm,
                  const char* what) {
  PerRank<at::Tensor> conformed;
  for (size_t r = 0; r < locals.size(); ++r) {
    const auto shape = local_shape(*spec, comm->positions[r]);
    LOCKSTEP_CHECK(locals[r].defined() && locals[r].sizes() == at::IntArrayRef(shape) &&
                       locals[r].scalar_type() == spec->dtype(),
                   "[static_eager] ", what, " of rank ", comm->ranks[r], " is ",
                   locals[r].defined() ? concat(dtype_name(locals[r].scalar_type()), locals[r].sizes())
                                       : "undefined",
                   ", and was ", to_string(*spec), " when the step was recorded; record it again");
    conformed.push_back(conform(locals[r].variable_data(), *spec));
  }
  return make_dtensor(spec, comm, std::move(conformed));
}

struct Enter : torch::autograd::Function<Enter> {
  // [tensor * ranks + rank]
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const std::vector<End>& ends) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["ends"] = keep(ends);
    variable_list all;
    for (const auto& tensor : tensors)
      for (const auto& local : dtensor_impl(tensor)->locals()) all.push_back(local.variable_data());
    return all;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    check_once();
    const PlainGuard guard;
    const auto& ends = kept(ctx->saved_data["ends"]);
    variable_list joined_ones(ends.size() + 1);
    size_t next = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      const auto ranks = static_cast<ptrdiff_t>(ends[i].comm->ranks.size());
      const auto first = gradients.begin() + static_cast<ptrdiff_t>(next);
      next += as_size(ranks);
      const bool none = std::none_of(first, first + ranks, [](auto& g) { return g.defined(); });
      LOCKSTEP_CHECK(none || ends[i].gradient != nullptr, "[static_eager] a gradient of ",
                     to_string(*ends[i].spec),
                     " comes back, and none did when the step was recorded; record it again");
      if (!none)
        joined_ones[i] = joined({first, first + ranks}, ends[i].gradient, ends[i].comm, "the gradient");
    }
    return joined_ones;
  }
};

struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList locals, const End& end) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["ends"] = keep({end});
    return joined({locals.begin(), locals.end()}, end.spec, end.comm, "the result");
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    check_once();
    const auto& end = kept(ctx->saved_data["ends"]).front();
    variable_list locals(end.comm->ranks.size() + 1);
    if (!gradients[0].defined()) return locals;
    // Zeros that autograd makes itself are plain, and placed as any.
    const auto gradient = end.gradient != nullptr && !is_dtensor(gradients[0])
                              ? settled(gradients[0], end.spec, end.comm, end.gradient->placements())
                              : gradients[0];
    const auto* impl = dtensor_impl(gradient);
    LOCKSTEP_CHECK(impl != nullptr && end.gradient != nullptr && equal_and_named_alike(*impl->spec(), *end.gradient),
                   "[static_eager] the gradient of ", to_string(*end.spec), " is ",
                   impl == nullptr ? "plain" : to_string(*impl->spec()), ", and was ",
                   end.gradient == nullptr ? "not there" : to_string(*end.gradient),
                   " when the step was recorded; record it again");
    for (size_t r = 0; r < impl->locals().size(); ++r) locals[r] = impl->locals()[r].variable_data();
    return locals;
  }
};

}  // namespace

End end_of(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  if (impl == nullptr) return {};
  return {impl->spec(), nullptr, impl->comm(), tensor.requires_grad()};
}

std::string unlike(const End& end, const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  const auto text = [](const Spec* spec, bool defined) {
    return spec != nullptr ? to_string(*spec) : defined ? "a plain tensor" : "undefined";
  };
  const auto* spec = impl == nullptr ? nullptr : impl->spec().get();
  const bool alike = spec == end.spec.get() || (spec != nullptr && end.spec != nullptr &&
                                                equal_and_named_alike(*spec, *end.spec));
  if (!alike || (impl == nullptr && tensor.defined()))
    return concat(text(spec, tensor.defined()), " in place of ", text(end.spec.get(), false));
  if (impl == nullptr) return "";
  if (impl->comm() != end.comm &&
      (impl->comm()->world != end.comm->world || impl->comm()->ranks != end.comm->ranks))
    return "of another World";
  if (tensor.requires_grad() != end.requires_grad)
    return end.requires_grad ? "requires no gradient any more" : "requires a gradient now";
  return "";
}

std::vector<PerRank<at::Tensor>> enter(const nn::Tensors& tensors, std::vector<End> ends) {
  std::vector<PerRank<at::Tensor>> entered(tensors.size());
  std::vector<at::Tensor> passing;
  std::vector<End> their_ends;
  std::vector<size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    if (tensors[i].requires_grad() && at::GradMode::is_enabled()) {
      passing.push_back(tensors[i]);
      their_ends.push_back(std::move(ends[i]));
      places.push_back(i);
    } else {
      for (const auto& local : dtensor_impl(tensors[i])->locals())
        entered[i].push_back(local.variable_data());
    }
  }
  if (passing.empty()) return entered;
  keep_leaf_gradients(passing);
  const auto all = Enter::apply(at::TensorList(passing), their_ends);
  size_t next = 0;
  for (const auto i : places)
    for (size_t r = dtensor_impl(tensors[i])->locals().size(); r > 0; --r) entered[i].push_back(all[next++]);
  return entered;
}

at::Tensor leave(const PerRank<at::Tensor>& locals, const End& end) {
  return Leave::apply(at::TensorList(locals), end);
}

}  // namespace lockstep
