// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/unit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "engine/nn/boundary.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

void add(at::Tensor& sum, const at::Tensor& term) {
  if (sum.defined())
    sum.add_(term);
  else
    sum = term;
}

}  // namespace

Unit::Unit(nn::Module& module, std::unique_ptr<DBuffer> buffer, std::vector<UnitParameter> parameters)
    : module_(module), buffer_(std::move(buffer)), parameters_(std::move(parameters)) {
  show(&UnitParameter::sharded);
}

Unit::~Unit() {
  try {
    if (gathering_) gathering_->wait();
    if (reducing_) reducing_->work.wait();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
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
  const auto pass = torch::autograd::get_current_graph_task_id();
  const auto before = std::exchange(backward_pass_, pass);
  if (before != pass && before != -1) forget_failed_pass();
  unshard();
  for (const auto& next : settings.backward_prefetch) next->begin_unshard();
  if (before != pass)
    torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
}

// One that threw, so that nobody finished it.
void Unit::forget_failed_pass() {
  if (reducing_) wait_for_reduction();
  reduced_.clear();
  if (!settings.requires_gradient_sync) return;  // what was added up before it is kept
  for (const auto& parameter : parameters_) parameter.whole.mutable_grad() = at::Tensor();
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
    if (lane->reducing != nullptr) lane->reducing->wait_for_reduction();
    reducing_.emplace(reduce(*buffer_, gradients));
    lane->reducing = this;
  }
  if (settings.reshard_after_backward) reshard();
}

// A module that is called twice reduces twice.
void Unit::wait_for_reduction() {
  lane->reducing = nullptr;
  auto reducing = std::move(*reducing_);
  reducing_.reset();
  reducing.work.wait();
  const at::NoGradGuard no_grad;
  reduced_.resize(parameters_.size());
  for (size_t i = 0; i < reduced_.size(); ++i)
    if (const auto& gradient = (*reducing.gradients)[i]; gradient.defined()) add(reduced_[i], gradient);
}

void Unit::finish_backward() {
  backward_pass_ = -1;
  after_backward();
  if (reducing_) wait_for_reduction();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : reduced_)
    if (gradient.defined()) gradients.push_back(gradient);
  if (settings.gradient_divide_factor != 1 && !gradients.empty())
    at::_foreach_div_(gradients, settings.gradient_divide_factor);
  for (size_t i = 0; i < reduced_.size(); ++i)
    if (reduced_[i].defined()) add(parameters_[i].sharded.mutable_grad(), reduced_[i]);
  reduced_.clear();
  for (auto* next : settings.backward_prefetch)
    if (next->backward_pass_ == -1 && next->gathering_) next->reshard();  // this pass had no use for it
}

}  // namespace lockstep::fsdp
