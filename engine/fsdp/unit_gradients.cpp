// SPDX-License-Identifier: Apache-2.0
// From what comes to gathered parameters to the gradients of the cut ones.
#include <ATen/ATen.h>

#include "engine/fsdp/unit.h"
#include "engine/tensor/dtensor_impl.h"

namespace lockstep::fsdp {
namespace {

void add(at::Tensor& sum, const at::Tensor& term) {
  if (sum.defined())
    sum.add_(term);
  else
    sum = term;
}

}  // namespace

// What has come to a parameter, with what waits since passes before, in the dtype in which it is reduced.
at::Tensor& Unit::gradient(size_t i) {
  auto& came = parameters_[i].whole.mutable_grad();
  const auto dtype = settings.policy.reduce_dtype.value_or(parameters_[i].whole.scalar_type());
  if (dtype == parameters_[i].whole.scalar_type()) return came;
  unsynced_.resize(parameters_.size());
  if (!came.defined()) return unsynced_[i];
  const auto terms = cast_terms(came, dtype);
  buffer_->note(require_dtensor(terms, "fully_shard").locals());
  came = at::Tensor();
  add(unsynced_[i], terms);
  return unsynced_[i];
}

void Unit::collect() {
  if (buffer_ == nullptr) return;
  lane->note_gradients();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  bool any = false;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& came = gradient(i);
    any |= came.defined();
    gradients.push_back(settings.requires_gradient_sync ? std::exchange(came, at::Tensor()) : at::Tensor());
  }
  has_unsynced_ = any && !settings.requires_gradient_sync;
  if (!any || has_unsynced_) return;
  if (lane->reducing != nullptr) lane->reducing->wait_for_reduction();
  is_scattering_ = scatters_only();
  reducing_.emplace(reduce(*buffer_, gradients, !is_scattering_));
  lane->reducing = this;
}

void Unit::wait_for_reduction() {
  lane->reducing = nullptr;
  auto reducing = std::move(*reducing_);
  reducing_.reset();
  reducing.work.wait();
  const at::NoGradGuard no_grad;
  auto& sums = is_scattering_ ? scattered_ : reduced_;
  sums.resize(parameters_.size());
  for (size_t i = 0; i < sums.size(); ++i)
    if (const auto& gradient = (*reducing.gradients)[i]; gradient.defined()) add(sums[i], gradient);
}

bool Unit::scatters_only() const {
  return buffer_->comm()->mesh.ndim() > 1 && (!settings.requires_all_reduce || !scattered_.empty());
}

void Unit::hand_over() {
  const at::NoGradGuard no_grad;
  if (settings.requires_gradient_sync && settings.requires_all_reduce && !scattered_.empty())
    reduced_ = reduce_across(*buffer_, std::exchange(scattered_, {}));
  if (reduced_.empty()) return;
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : reduced_)
    if (gradient.defined()) gradients.push_back(gradient);
  if (settings.gradient_divide_factor != 1 && !gradients.empty())
    at::_foreach_div_(gradients, settings.gradient_divide_factor);
  const auto dtype = buffer_->layout().dtype();
  if (settings.policy.reduce_dtype.value_or(buffer_->layout().gathered_dtype()) != dtype)
    reduced_ = cast_reduced(*buffer_, reduced_, dtype);
  for (size_t i = 0; i < reduced_.size(); ++i)
    if (reduced_[i].defined()) add(parameters_[i].sharded.mutable_grad(), reduced_[i]);
  note_gradients();
  reduced_.clear();
}

}  // namespace lockstep::fsdp
