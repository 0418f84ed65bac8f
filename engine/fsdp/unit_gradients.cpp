// SPDX-License-Identifier: Apache-2.0
// From what comes to gathered parameters to the gradients of the cut ones.
#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

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

// By parameter; undefined: none yet.
void add(std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& terms) {
  sums.resize(terms.size());
  for (size_t i = 0; i < terms.size(); ++i)
    if (terms[i].defined()) add(sums[i], terms[i]);
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
  lane->make_way();
  const bool to_shards = scatters_only();
  lane->scattering = std::make_shared<Reducing>(reduce(*buffer_, gradients, !to_shards));
  reductions_.push_back({lane->scattering, to_shards});
}

void Unit::drop_reductions() {
  const auto dropped = std::exchange(reductions_, {});
  for (const auto& reduced : dropped)
    for (auto* on_its_way : {&lane->scattering, &lane->adding_up})
      if (*on_its_way == reduced.reducing) on_its_way->reset();
  for (const auto& reduced : dropped) {
    try {
      reduced.reducing->stop();
    } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
    }
  }
}

bool Unit::scatters_only() const {
  const bool any_wait =
      !scattered_.empty() || std::any_of(reductions_.begin(), reductions_.end(),
                                         [](const Reduced& reduced) { return reduced.scatters_only; });
  return buffer_->comm()->mesh.ndim() > 1 && (!settings.requires_all_reduce || any_wait);
}

void Unit::hand_over() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const auto& [reducing, scatters_only] : std::exchange(reductions_, {}))
    add(scatters_only ? scattered_ : sums, reducing->gradients());
  if (settings.requires_gradient_sync && settings.requires_all_reduce && !scattered_.empty())
    sums = reduce_across(*buffer_, std::exchange(scattered_, {}));
  if (sums.empty()) return;
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : sums)
    if (gradient.defined()) gradients.push_back(gradient);
  if (settings.gradient_divide_factor != 1 && !gradients.empty())
    at::_foreach_div_(gradients, settings.gradient_divide_factor);
  const auto dtype = buffer_->layout().dtype();
  if (settings.policy.reduce_dtype.value_or(buffer_->layout().gathered_dtype()) != dtype)
    sums = cast_reduced(*buffer_, sums, dtype);
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i].defined()) add(parameters_[i].sharded.mutable_grad(), sums[i]);
  note_gradients();
}

}  // namespace lockstep::fsdp
