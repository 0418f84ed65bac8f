// SPDX-License-Identifier: Apache-2.0
#include "suites/train/plain_unit.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/nn/boundary.h"
#include "engine/nn/checkpoint.h"

namespace lockstep::suites {
namespace {

at::Tensor in_dtype(const at::Tensor& tensor, std::optional<at::ScalarType> dtype) {
  return dtype && tensor.is_floating_point() ? tensor.to(*dtype) : tensor;
}

void add_to(at::Tensor& sum, at::Tensor term) {
  if (sum.defined())
    sum.add_(term);
  else
    sum = std::move(term);
}

}  // namespace

PlainUnit::PlainUnit(nn::Module& model, const std::vector<nn::Module*>& modules,
                     std::vector<std::string> paths, MixedPrecisionPolicy policy)
    : model_(model),
      modules_(modules),
      paths_(std::move(paths)),
      policy_(policy),
      parameters_(paths_.size()),
      whole_(paths_.size()),
      sums_(paths_.size()),
      reduced_(paths_.size()),
      gradients_(paths_.size()) {
  for (size_t i = 0; i < modules.size(); ++i)
    modules[i]->call_around([this, i](nn::Tensors inputs, const nn::Module::Forward& forward) {
      return call(i, std::move(inputs), forward);
    });
}

// A second run is of the round of its first one.
std::shared_ptr<PlainUnit::Round> PlainUnit::round_of(size_t module) {
  const void* key = &modules_[module];
  const bool again = is_recomputing();
  if (again && !is_first_run())
    if (const auto first = take_from_first_run(key)) return std::static_pointer_cast<Round>(first);
  if (again || round_ == nullptr || round_->ran[module]) {
    const auto round = std::make_shared<Round>();
    round->ran.resize(modules_.size());
    if (is_first_run()) leave_for_second_run(key, round);
    if (again) return round;
    round_ = round;
  } else if (is_first_run()) {
    leave_for_second_run(key, round_);
  }
  round_->ran[module] = true;
  return round_;
}

// If one was written since: all of them, in order.
void PlainUnit::cast() {
  if (is_open_) return;
  is_used_ = true;
  if (std::exchange(is_stale_, false)) cast_anew();
  for (size_t i = 0; i < paths_.size(); ++i)  // frozen meanwhile, or no more
    if (!whole_[i].is_same(parameters_[i])) whole_[i].set_requires_grad(parameters_[i].requires_grad());
}

void PlainUnit::cast_anew() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < paths_.size(); ++i) {
    parameters_[i] = model_.parameter(paths_[i]);
    const auto tied = std::find_if(parameters_.begin(), parameters_.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const at::Tensor& t) { return t.is_same(parameters_[i]); });
    if (const auto k = static_cast<size_t>(tied - parameters_.begin()); k < i) {
      whole_[i] = whole_[k];
      continue;
    }
    whole_[i] = in_dtype(parameters_[i], policy_.param_dtype);
  }
}

at::Tensor PlainUnit::call(size_t module, nn::Tensors inputs, const nn::Module::Forward& forward) {
  cast();
  const auto round = round_of(module);
  if (next_ != nullptr) next_->cast();
  is_open_ = true;
  show(whole_);
  for (auto& input : inputs) input = in_dtype(input, policy_.param_dtype);
  // Each at a boundary of its own: where one has several, whose gradient is whose is not taken on trust.
  const auto awaited = std::make_shared<int64_t>(0);
  const auto arrived = [this, awaited, round](nn::Tensors&) {
    if (--*awaited > 0) return;
    if (++round->back >= round->calls && std::exchange(round->is_reached, false) && reached_ > 0) --reached_;
    if (reached_ == 0) collect();
  };
  for (auto& input : inputs) {
    *awaited += input.requires_grad() ? 1 : 0;
    input = nn::at_boundary({input}, arrived)[0];
  }
  const auto output = forward(std::move(inputs));
  const bool comes_back = output.requires_grad() || (is_first_run() && !is_recomputing());
  if (comes_back && (!is_recomputing() || round->calls == 0)) ++round->calls;
  const auto outer = nn::at_boundary({output}, [this, round](nn::Tensors&) {
    if (std::exchange(round->is_reached, true)) return;
    round->back = 0;
    ++reached_;
  });
  return in_dtype(outer[0], policy_.output_dtype);
}

void PlainUnit::show(const std::vector<at::Tensor>& which) {
  for (size_t i = 0; i < paths_.size(); ++i) model_.set_parameter(paths_[i], which[i], true);
}

void PlainUnit::close() {
  is_open_ = false;
  reached_ = 0;
  round_.reset();
  show(parameters_);
}

bool PlainUnit::converts(size_t i) const {
  return policy_.reduce_dtype.value_or(whole_[i].scalar_type()) != whole_[i].scalar_type();
}

void PlainUnit::collect() {
  const at::NoGradGuard no_grad;
  bool any = false;
  for (size_t i = 0; i < paths_.size(); ++i) {
    auto& came = whole_[i].mutable_grad();
    if (came.defined() && converts(i))
      add_to(sums_[i], std::exchange(came, at::Tensor()).to(*policy_.reduce_dtype));
    any |= converts(i) ? sums_[i].defined() : came.defined();
  }
  if (!syncs_ || !any) return;
  auto& taken = taken_.emplace_back();
  for (size_t i = 0; i < paths_.size(); ++i)
    taken.push_back(std::exchange(converts(i) ? sums_[i] : whole_[i].mutable_grad(), at::Tensor()));
}

void PlainUnit::settle() {
  const at::NoGradGuard no_grad;
  for (const auto& taken : std::exchange(taken_, {}))
    for (size_t i = 0; i < paths_.size(); ++i)
      if (taken[i].defined()) add_to(reduced_[i], taken[i]);
}

void PlainUnit::deliver(double divided_by) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> defined;
  for (const auto& gradient : reduced_)
    if (gradient.defined()) defined.push_back(gradient);
  if (divided_by != 1 && !defined.empty()) at::_foreach_div_(defined, divided_by);
  for (size_t i = 0; i < paths_.size(); ++i)
    if (reduced_[i].defined()) reduced_[i] = reduced_[i].to(parameters_[i].scalar_type());
  for (size_t i = 0; i < paths_.size(); ++i)
    if (reduced_[i].defined()) add_to(gradients_[i], std::exchange(reduced_[i], at::Tensor()));
}

void PlainUnit::hand_in() {
  for (size_t i = 0; i < paths_.size(); ++i)
    if (gradients_[i].defined())
      add_to(parameters_[i].mutable_grad(), std::exchange(gradients_[i], at::Tensor()));
}

void PlainUnit::updated() {
  const auto has_gradient = [](const at::Tensor& t) { return t.grad().defined(); };
  is_stale_ |= std::any_of(parameters_.begin(), parameters_.end(), has_gradient);
}

void PlainUnits::add(nn::Module& model, const std::vector<nn::Module*>& modules,
                     std::vector<std::string> paths, MixedPrecisionPolicy policy, bool is_within) {
  const auto& unit =
      units_.emplace_back(std::make_unique<PlainUnit>(model, modules, std::move(paths), policy));
  const auto place = std::min(on_the_way_back_.size(), size_t{is_within ? 2u : 1u});
  on_the_way_back_.insert(on_the_way_back_.begin() + static_cast<ptrdiff_t>(place), unit.get());
}

void PlainUnits::prefetch() {
  for (size_t i = 1; i < units_.size(); ++i) units_[i - 1]->prefetch(*units_[i]);
}

void PlainUnits::cast() {
  for (const auto& unit : units_) unit->cast();
}

void PlainUnits::sync(bool on) {
  for (const auto& unit : units_) unit->sync(on);
}

void PlainUnits::end_pass(double divided_by, bool delivers) {
  each([](PlainUnit& unit) { unit.collect(); });
  each([&](PlainUnit& unit) {
    unit.settle();
    if (delivers) unit.deliver(divided_by);
  });
  close();
}

void PlainUnits::close() {
  each([](PlainUnit& unit) { unit.close(); });
}

void PlainUnits::hand_in() {
  each([](PlainUnit& unit) { unit.hand_in(); });
}

void PlainUnits::updated() {
  each([](PlainUnit& unit) { unit.updated(); });
}

}  // namespace lockstep::suites
