// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/unit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "engine/nn/boundary.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {

Unit::Unit(nn::Module& module, std::unique_ptr<DBuffer> buffer, std::vector<UnitParameter> parameters)
    : module_(module), buffer_(std::move(buffer)), parameters_(std::move(parameters)) {
  show(&UnitParameter::sharded);
}

void Unit::show(at::Tensor UnitParameter::*which) {
  for (const auto& parameter : parameters_)
    for (const auto& path : parameter.paths) module_.set_parameter(path, parameter.*which);
}

// Nobody has put another tensor there.
void Unit::check_shown(at::Tensor UnitParameter::*which) const {
  for (const auto& parameter : parameters_)
    for (const auto& path : parameter.paths)
      LOCKSTEP_CHECK(
          module_.parameter(path).is_same(parameter.*which), "[fully_shard] the parameter '", path,
          "' has been replaced by another tensor, which the buffer does not hold; write its values "
          "with copy_");
}

bool Unit::is_stale() const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (static_cast<int64_t>(parameters_[i].sharded._version()) != versions_[i]) return true;
  return false;
}

void Unit::begin_unshard() {
  if (buffer_ == nullptr) return;
  if ((buffer_->is_gathered() || gathering_) && is_stale()) reshard();
  if (buffer_->is_gathered() || gathering_) return;
  check_shown(&UnitParameter::sharded);
  versions_.clear();
  for (const auto& parameter : parameters_)
    versions_.push_back(static_cast<int64_t>(parameter.sharded._version()));
  gathering_.emplace(buffer_->gather());
}

void Unit::unshard() {
  begin_unshard();
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  for (const auto& parameter : parameters_)  // frozen meanwhile, or no more
    if (parameter.whole.requires_grad() != parameter.sharded.requires_grad())
      parameter.whole.set_requires_grad(parameter.sharded.requires_grad());
  show(&UnitParameter::whole);
}

void Unit::reshard() {
  if (buffer_ == nullptr) return;
  if (gathering_) {
    gathering_->wait();
    gathering_.reset();
  }
  if (!buffer_->is_gathered()) return;
  show(&UnitParameter::sharded);
  buffer_->release();
}

void Unit::before_forward(nn::Tensors& inputs) {
  unshard();
  for (const auto& next : settings.forward_prefetch) next->begin_unshard();
  inputs = nn::at_boundary(std::move(inputs), [this](nn::Tensors&) { after_backward(); });
}

void Unit::after_forward(at::Tensor& output) {
  if (settings.reshard_after_forward) reshard();
  output = nn::at_boundary({output}, [this](nn::Tensors&) { before_backward(); })[0];
}

void Unit::before_backward() {
  unshard();
  for (const auto& next : settings.backward_prefetch) next->begin_unshard();
  const auto pass = torch::autograd::get_current_graph_task_id();
  if (std::exchange(backward_pass_, pass) == pass) return;
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
}

void Unit::after_backward() {
  if (buffer_ == nullptr) return;
  std::vector<at::Tensor> gradients;
  bool any = false;
  for (const auto& parameter : parameters_) {
    auto& gradient = parameter.whole.mutable_grad();
    gradients.push_back(settings.requires_gradient_sync ? std::exchange(gradient, at::Tensor())
                                                        : at::Tensor());
    any |= gradients.back().defined();
  }
  if (any) {
    if (lane->reducing != nullptr) lane->reducing->deliver();
    reducing_.emplace(reduce(*buffer_, gradients));
    lane->reducing = this;
  }
  if (settings.reshard_after_backward) reshard();
}

void Unit::deliver() {
  lane->reducing = nullptr;
  auto reducing = std::move(*reducing_);
  reducing_.reset();
  reducing.work.wait();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> arrived;
  for (const auto& gradient : *reducing.gradients)
    if (gradient.defined()) arrived.push_back(gradient);
  if (settings.gradient_divide_factor != 1) at::_foreach_div_(arrived, settings.gradient_divide_factor);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = (*reducing.gradients)[i];
    auto& sum = parameters_[i].sharded.mutable_grad();
    if (!gradient.defined()) continue;
    if (sum.defined())
      sum.add_(gradient);
    else
      sum = gradient;
  }
}

void Unit::finish_backward() {
  backward_pass_ = -1;
  after_backward();
  if (lane->reducing == this) deliver();
}

}  // namespace lockstep::fsdp
