// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/boundary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

using torch::autograd::variable_list;

struct Boundary : torch::autograd::Node {
  Boundary(OnGradients function, std::vector<size_t> passing, size_t tensors)
      : arrived(std::move(function)), places(std::move(passing)), count(tensors) {}
  variable_list apply(variable_list&& gradients) override {
    variable_list all(count);
    for (size_t k = 0; k < places.size(); ++k) all[places[k]] = std::move(gradients[k]);
    arrived(all);
    LOCKSTEP_CHECK(all.size() == count, "[nn] a backward hook left ", all.size(), " gradients of ", count);
    for (size_t k = 0; k < places.size(); ++k) gradients[k] = std::move(all[places[k]]);
    return std::move(gradients);
  }
  // As libtorch names what users write: what is made within is no formula's.
  std::string name() const override { return "torch::autograd::CppNode<lockstep::nn::Boundary>"; }

  const OnGradients arrived;
  const std::vector<size_t> places;  // of the tensors that pass, among all
  const size_t count;
};

at::Tensor under_no_history(const at::Tensor& tensor, bool held) {
  using namespace torch::autograd;
  const auto& impl = *tensor.unsafeGetTensorImpl();
  const at::Tensor alias(
      impl.shallow_copy_and_detach(impl.version_counter(), /*allow_tensor_metadata_change=*/false));
  return held ? as_view(tensor, alias, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/false, nullptr,
                        nullptr, CreationMeta::IN_CUSTOM_FUNCTION)
              : alias;
}

}  // namespace

std::vector<at::Tensor> at_boundary(std::vector<at::Tensor> tensors, OnGradients arrived, bool held) {
  std::vector<size_t> passing;
  torch::autograd::edge_list next;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
    LOCKSTEP_CHECK(
        !tensors[i]._fw_grad(0).defined(),
        "[nn] gradients of forward mode do not pass a module with backward hooks, or that is sharded; "
        "use backward()");
    passing.push_back(i);
    next.push_back(torch::autograd::impl::gradient_edge(tensors[i]));
  }
  if (passing.empty() || !at::GradMode::is_enabled()) return tensors;
  const std::shared_ptr<Boundary> node(new Boundary(std::move(arrived), passing, tensors.size()),
                                       torch::autograd::deleteNode);
  node->set_next_edges(std::move(next));
  for (const size_t i : passing) {
    tensors[i] = under_no_history(tensors[i], held);
    torch::autograd::set_history(tensors[i], node);
  }
  return tensors;
}

}  // namespace lockstep::nn
