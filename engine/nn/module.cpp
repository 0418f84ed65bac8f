// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/module.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "engine/nn/boundary.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

template <class T>
std::string names(const Named<T>& entries) {
  std::string all;
  for (const auto& [key, value] : entries) all += concat(all.empty() ? "" : ", ", key);
  return all.empty() ? "none" : all;
}

template <class T>
T& find_or_throw(Named<T>& entries, std::string_view name, const char* kind, std::string_view path) {
  for (auto& [key, value] : entries)
    if (key == name) return value;
  throw Error(concat("[nn] no ", kind, " '", path, "'; there are: ", names(entries)));
}

void replace(at::Tensor& slot, at::Tensor value, std::string_view path, bool any_dtype = false) {
  LOCKSTEP_CHECK(value.defined() && slot.sizes() == value.sizes() &&
                     (any_dtype || slot.scalar_type() == value.scalar_type()),
                 "[nn] '", path, "' is ", slot.scalar_type(), slot.sizes(), "; it cannot become ",
                 value.defined() ? concat(value.scalar_type(), value.sizes()) : "undefined");
  slot = std::move(value);
}

Named<at::Tensor> at_first_paths(const std::vector<Module::WithPaths>& all) {
  Named<at::Tensor> each;
  for (const auto& [value, paths] : all) each.emplace_back(paths.front(), value);
  return each;
}

}  // namespace

at::Tensor Module::call(Tensors inputs) {
  for (const auto* own : {&parameters_, &buffers_})
    for (const auto& [name, tensor] : *own)
      LOCKSTEP_CHECK(!tensor.is_meta(), "[nn] '", name, "' of shape ", tensor.sizes(),
                     " has no values yet; call reset_parameters, or materialize, before the model");
  if (call_by_ == nullptr) return call_within(around_.size(), std::move(inputs));
  return call_by_(std::move(inputs),
                  [this](Tensors given) { return call_within(around_.size(), std::move(given)); });
}

at::Tensor Module::call_forward(const Tensors& inputs) {
  if (forward_by_ == nullptr) return forward(inputs);
  return forward_by_(inputs, [this](const Tensors& given) { return forward(given); });
}

size_t Module::hook_count() const {
  return pre_hooks_.size() + hooks_.size() + backward_pre_hooks_.size() + backward_hooks_.size() +
         around_.size();
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> all;
  for (const auto& [name, module] : children_) all.push_back(module.get());
  return all;
}

std::vector<at::Tensor*> Module::own_tensors() {
  std::vector<at::Tensor*> own;
  for (auto* named : {&parameters_, &buffers_})
    for (auto& [name, tensor] : *named) own.push_back(&tensor);
  return own;
}

void Module::call_around(Around around, std::string what, bool outermost) {
  around_.emplace(around_.end() - (outermost ? 0 : outermost_), std::move(around), std::move(what));
  if (outermost) ++outermost_;
}

at::Tensor Module::call_within(size_t around, Tensors inputs) {
  if (around == 0) return call_with_hooks(std::move(inputs));
  return around_[around - 1].first(
      std::move(inputs), [=, this](Tensors given) { return call_within(around - 1, std::move(given)); });
}

// The full backward hooks of one call, as they were then.
struct Module::BackwardHooks {
  std::weak_ptr<Module*> module;
  Hooks<BackwardPreHook> before;
  Hooks<BackwardHook> after;
  at::Tensor grad_output;

  Module& alive() const {
    const auto still = module.lock();
    LOCKSTEP_CHECK(still != nullptr,
                   "[nn] a module with backward hooks was destroyed before its backward pass");
    return **still;
  }
  void on_output(at::Tensor& gradient) {
    for (const auto& hook : before) hook.call(alive(), gradient);
    grad_output = gradient;
  }
  void on_inputs(Tensors& gradients) {
    if (!grad_output.defined()) return;  // a pass that came to the inputs by another way
    for (const auto& hook : after) hook.call(alive(), gradients, grad_output);
    grad_output = at::Tensor();
  }
};

at::Tensor Module::call_with_hooks(Tensors inputs) {
  const auto pre_hooks = pre_hooks_;  // hooks may take hooks away, and add some
  for (const auto& hook : pre_hooks) hook.call(*this, inputs);
  std::shared_ptr<BackwardHooks> backward;
  const size_t count = inputs.size();
  bool none_passes = true;
  if (!backward_pre_hooks_.empty() || !backward_hooks_.empty()) {
    backward = std::make_shared<BackwardHooks>(
        BackwardHooks{alive_, backward_pre_hooks_, backward_hooks_, at::Tensor()});
    for (const auto& t : inputs) none_passes &= !t.defined() || !t.requires_grad();
    inputs =
        at_boundary(std::move(inputs), [backward](Tensors& gradients) { backward->on_inputs(gradients); });
  }
  auto output = call_forward(inputs);
  const auto hooks = hooks_;
  for (const auto& hook : hooks) hook.call(*this, inputs, output);
  if (backward == nullptr) return output;
  return at_boundary({output}, [backward, none_passes, count](Tensors& gradients) {
    backward->on_output(gradients[0]);
    Tensors none(count);
    if (none_passes) backward->on_inputs(none);
  })[0];
}

int64_t Module::register_full_backward_pre_hook(BackwardPreHook hook, std::string what) {
  return add_hook(backward_pre_hooks_, std::move(hook), std::move(what));
}

int64_t Module::register_full_backward_hook(BackwardHook hook, std::string what) {
  return add_hook(backward_hooks_, std::move(hook), std::move(what));
}

int64_t Module::register_forward_pre_hook(PreHook hook, std::string what) {
  return add_hook(pre_hooks_, std::move(hook), std::move(what));
}

int64_t Module::register_forward_hook(Hook hook, std::string what) {
  return add_hook(hooks_, std::move(hook), std::move(what));
}

void Module::remove_hook(int64_t number) {
  const auto is_it = [number](const auto& entry) { return entry.number == number; };
  const auto removed = std::erase_if(pre_hooks_, is_it) + std::erase_if(hooks_, is_it) +
                       std::erase_if(backward_pre_hooks_, is_it) + std::erase_if(backward_hooks_, is_it);
  LOCKSTEP_CHECK(removed == 1, "[nn] no hook number ", number, " on this module");
}

std::vector<Module::HookRow> Module::hooks() {
  std::vector<HookRow> rows;
  for (const auto& [path, module] : named_modules()) {
    const auto add = [&](const char* when, const auto& hooks) {
      for (const auto& hook : hooks) rows.push_back({path, when, hook.what});
    };
    for (size_t i = module->around_.size(); i-- > 0;)
      rows.push_back({path, "around", module->around_[i].second});
    add("forward pre", module->pre_hooks_);
    add("forward", module->hooks_);
    add("backward pre", module->backward_pre_hooks_);
    add("backward", module->backward_hooks_);
  }
  return rows;
}

std::string to_string(const std::vector<Module::HookRow>& rows) {
  std::string text;
  for (const auto& [path, when, what] : rows)
    text += concat(path.empty() ? "(the model)" : path, " | ", when, " | ", what.empty() ? "-" : what, "\n");
  return text;
}

Named<Module*> Module::at_all_places() {
  Named<Module*> all = {{"", this}};
  for (const auto& [name, module] : children_)
    for (const auto& [path, below] : module->at_all_places())
      all.emplace_back(path.empty() ? name : concat(name, ".", path), below);
  return all;
}

std::vector<std::pair<Module*, std::vector<std::string>>> Module::modules_with_paths() {
  std::vector<std::pair<Module*, std::vector<std::string>>> each;
  std::unordered_map<const Module*, size_t> known;
  for (auto& [path, module] : at_all_places()) {
    const auto [at, is_new] = known.emplace(module, each.size());
    if (is_new) each.emplace_back(module, std::vector<std::string>());
    each[at->second].second.push_back(std::move(path));
  }
  return each;
}

Named<Module*> Module::named_modules() {
  Named<Module*> each;
  for (const auto& [module, paths] : modules_with_paths()) each.emplace_back(paths.front(), module);
  return each;
}

Named<at::Tensor> Module::all_of(Own own) const {
  auto all = this->*own;
  for (const auto& [name, module] : children_)
    for (const auto& [path, tensor] : module->all_of(own)) all.emplace_back(concat(name, ".", path), tensor);
  return all;
}

std::vector<Module::WithPaths> Module::with_paths(Own own) const {
  std::vector<WithPaths> each;
  std::unordered_map<const c10::TensorImpl*, size_t> known;
  for (auto& [path, value] : all_of(own)) {
    const auto [at, is_new] = known.emplace(value.unsafeGetTensorImpl(), each.size());
    if (is_new) each.push_back({value, {}});
    each[at->second].paths.push_back(std::move(path));
  }
  return each;
}

std::vector<Module::WithPaths> Module::parameters_with_paths() const {
  return with_paths(&Module::parameters_);
}
std::vector<Module::WithPaths> Module::buffers_with_paths() const {
  return with_paths(&Module::buffers_);
}

Named<at::Tensor> Module::named_parameters() const {
  return at_first_paths(parameters_with_paths());
}
Named<at::Tensor> Module::named_buffers() const {
  return at_first_paths(buffers_with_paths());
}

std::vector<at::Tensor> Module::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& [path, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

void Module::replace_parameters(const Made& made) {
  for (const auto& [parameter, paths] : parameters_with_paths()) {
    const auto value = made(paths, parameter);
    for (const auto& path : paths) set_parameter(path, value);
  }
}

void Module::replace_buffers(const Made& made) {
  for (const auto& [buffer, paths] : buffers_with_paths()) {
    const auto value = made(paths, buffer);
    for (const auto& path : paths) set_buffer(path, value);
  }
}

Module& Module::child(std::string_view path) {
  if (path.empty()) return *this;
  const auto dot = path.find('.');
  auto& next = *find_or_throw(children_, path.substr(0, dot), "module", path);
  return dot == std::string_view::npos ? next : next.child(path.substr(dot + 1));
}

template <class T>
T& Module::at_path(Named<T> Module::*own, const char* kind, std::string_view path) {
  const auto dot = path.rfind('.');
  const bool is_own = dot == std::string_view::npos;
  auto& entries = child(is_own ? "" : path.substr(0, dot)).*own;
  return find_or_throw(entries, is_own ? path : path.substr(dot + 1), kind, path);
}

const at::Tensor& Module::parameter(std::string_view path) const {
  return const_cast<Module*>(this)->at_path(&Module::parameters_, "parameter", path);
}
const at::Tensor& Module::buffer(std::string_view path) const {
  return const_cast<Module*>(this)->at_path(&Module::buffers_, "buffer", path);
}
void Module::set_parameter(std::string_view path, at::Tensor value, bool any_dtype) {
  replace(at_path(&Module::parameters_, "parameter", path), std::move(value), path, any_dtype);
}
void Module::set_buffer(std::string_view path, at::Tensor value) {
  replace(at_path(&Module::buffers_, "buffer", path), std::move(value), path);
}
at::Tensor Module::make_buffer(std::string_view path, c10::Device device) {
  return at_path(&Module::buffer_makers_, "buffer", path)(device);
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, module] : children_) module->train(on);
}

void Module::zero_grad() {
  for (auto& parameter : parameters()) parameter.mutable_grad() = at::Tensor();
}

void Module::add_parameter(std::string name, at::IntArrayRef shape, at::ScalarType dtype) {
  auto value = at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
  parameters_.emplace_back(std::move(name), value.requires_grad_());
}

void Module::add_buffer(std::string name, MakeBuffer make) {
  buffers_.emplace_back(name, make(at::kMeta));
  buffer_makers_.emplace_back(std::move(name), std::move(make));
}

void make_buffers(Module& module, c10::Device device) {
  module.replace_buffers([&](const auto& paths, const at::Tensor& buffer) {
    return buffer.is_meta() ? module.make_buffer(paths.front(), device) : buffer;
  });
}

void make_parameters(Module& module, c10::Device device) {
  module.replace_parameters([device](const auto&, const at::Tensor& parameter) {
    if (!parameter.is_meta() || is_dtensor(parameter)) return parameter;
    return at::empty_like(parameter, device).set_requires_grad(parameter.requires_grad());
  });
}

void reset_parameters(Module& module, c10::Device device) {
  make_parameters(module, device);
  make_buffers(module, device);
  const at::NoGradGuard no_grad;
  for (const auto& [path, below] : module.named_modules()) below->reset_own_parameters();
}

}  // namespace lockstep::nn
