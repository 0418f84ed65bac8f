// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/graph_task.h>

#include "engine/tensor/redistribute.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

bool all_same(const at::Tensor& tensor, int64_t value) {
  return at::count_nonzero(tensor.ne(value)).item<int64_t>() == 0;
}

}  // namespace

bool in_backward_pass() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool made_by_autograd(const at::Tensor& tensor) {
  return in_backward_pass() && (all_same(tensor, 0) || all_same(tensor, 1));
}

at::Tensor settled(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm) {
  if (!is_dtensor(grad) && !made_by_autograd(grad))
    throw Refused(Refusal::kPlain, "backward", to_string(*of),
                  concat("a plain tensor of shape ", grad.sizes(), " arrived as the gradient of the DTensor ",
                         to_string(*of), "; "),
                  "a hook must return a DTensor");
  const auto placed = is_dtensor(grad) ? grad : replicated(grad, comm);
  const auto& now = *dtensor_impl(placed)->spec();
  const auto target = now.with_placements(dual(of->placements()), of->order());
  return target == now ? placed : redistribute(placed, target.placements(), target.order());
}

c10::IValue hold(SpecPtr spec, CommPtr comm) {
  return at::IValue::make_capsule(c10::make_intrusive<Held>(std::move(spec), std::move(comm)));
}

c10::intrusive_ptr<Held> held(const c10::IValue& capsule) {
  return c10::static_intrusive_pointer_cast<Held>(capsule.toCapsule());
}

}  // namespace lockstep
