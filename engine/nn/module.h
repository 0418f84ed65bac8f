// SPDX-License-Identifier: Apache-2.0
// Module: named parameters, buffers and children, and a call that runs forward-pre and forward hooks.
// torch::nn::Module of C++ has no hooks, and its parameters cannot become distributed; here both are the
// point.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

namespace lockstep::nn {

using Tensors = std::vector<at::Tensor>;
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

// Parameters and buffers that a constructor makes are on the meta device: they have a shape and no values.
// They get values, in this order, from distribute_module (if the model is to be distributed) and
// reset_parameters. So a model is never larger on one device than its shards are (deferred.h).
class Module {
 public:
  // The values of a buffer, on the device that is asked for: meta for their shape alone.
  using MakeBuffer = std::function<at::Tensor(at::Device)>;
  // Sees the inputs and may replace them.
  using PreHook = std::function<void(Module& module, Tensors& inputs)>;
  // Sees inputs and output, and may replace the output.
  using Hook = std::function<void(Module& module, const Tensors& inputs, at::Tensor& output)>;
  // Sees the gradient of the output of a call, and may replace it.
  using BackwardPreHook = std::function<void(Module& module, at::Tensor& grad_output)>;
  // Sees the gradients of the inputs of a call, undefined where none came, and may replace them.
  using BackwardHook =
      std::function<void(Module& module, Tensors& grad_inputs, const at::Tensor& grad_output)>;
  // A call of the module, hooks included, on these inputs; and what stands around it.
  using Forward = std::function<at::Tensor(Tensors inputs)>;
  using Around = std::function<at::Tensor(Tensors inputs, const Forward& forward)>;

  virtual ~Module() = default;
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Pre-hooks in order of registration, forward, hooks in order of registration.
  template <class... T>
  at::Tensor operator()(const T&... inputs) {
    return call(Tensors{inputs...});
  }
  at::Tensor call(Tensors inputs);

  // Return a number by which remove_hook takes the hook away again. @param what it does, for hooks()
  int64_t register_forward_pre_hook(PreHook hook, std::string what = "");
  int64_t register_forward_hook(Hook hook, std::string what = "");
  // Called once in a backward pass for each call of the module, those that were there when it was called:
  // pre-hooks when the gradient of its output has come, hooks when those of its inputs have; where no input
  // requires one, right after the pre-hooks, with none. Not called where nothing came to the output. The
  // output is that after forward hooks, inputs are those after pre-hooks, and neither is to be written in
  // place. A gradient to which several uses of an input within the call contribute is their sum before any
  // other's.
  int64_t register_full_backward_pre_hook(BackwardPreHook hook, std::string what = "");
  int64_t register_full_backward_hook(BackwardHook hook, std::string what = "");
  void remove_hook(int64_t number);
  // Each call goes through `around`, which calls `forward` once; the last one set is the outermost, but for
  // those that are to be `outermost` whenever they are set.
  void call_around(Around around, std::string what = "", bool outermost = false);
  // What stands around a call and all that is around it, and around forward() alone, where the hooks have
  // been; empty: nothing. There is one of each, of whoever runs the module in another way (static_eager.h).
  void run_by(Around call, Around forward) {
    call_by_ = std::move(call);
    forward_by_ = std::move(forward);
  }
  // How many hooks there are, of all kinds, and what stands around its calls.
  size_t hook_count() const;
  // Own parameters, then own buffers, where they stand.
  std::vector<at::Tensor*> own_tensors();
  // Those that this one calls, in order of registration.
  std::vector<Module*> children() const;
  // What this module and those below it do beside their forwards: a row each, of a module in the order in
  // which they are called. A plan, fully_shard and checkpoint say here what they have done to a model.
  struct HookRow {
    std::string path;
    const char* when;  // "around", "forward pre", "forward", "backward pre", "backward"
    std::string what;  // "forward_pre:<in>:0:redist(->S1,tp)"; "" where nobody said it
    bool operator==(const HookRow&) const = default;
  };
  std::vector<HookRow> hooks();
  // Expired: the module has been destroyed.
  std::weak_ptr<Module*> life() const { return alive_; }

  // Own ones first, then the children's, in order of registration: torch's order. Paths are joined by dots.
  // What several layers share stands once, at its first path.
  Named<at::Tensor> named_parameters() const;
  Named<at::Tensor> named_buffers() const;
  std::vector<at::Tensor> parameters() const;
  // A parameter or buffer and all its paths, of which layers that share it have one each.
  struct WithPaths {
    at::Tensor value;
    std::vector<std::string> paths;
  };
  std::vector<WithPaths> parameters_with_paths() const;
  std::vector<WithPaths> buffers_with_paths() const;
  // Sets each to what `made` gives for it, at all its paths: what layers share stays one.
  using Made = std::function<at::Tensor(const std::vector<std::string>& paths, const at::Tensor& value)>;
  void replace_parameters(const Made& made);
  void replace_buffers(const Made& made);
  // This module ("") and all below it; one that stands in several places once, at the first.
  Named<Module*> named_modules();
  // The same with all places of each.
  std::vector<std::pair<Module*, std::vector<std::string>>> modules_with_paths();

  // By path, as "layers.0.self_attn.q_proj.weight". Throw Error naming the paths that exist at the level that
  // failed.
  const at::Tensor& parameter(std::string_view path) const;
  const at::Tensor& buffer(std::string_view path) const;
  Module& child(std::string_view path);
  // Replaces the tensor itself; set_data would leave the old impl in place. Same shape and dtype, else Error;
  // `any_dtype`: as for what stands in for a parameter under mixed precision.
  void set_parameter(std::string_view path, at::Tensor value, bool any_dtype = false);
  void set_buffer(std::string_view path, at::Tensor value);
  // The first values of a buffer, computed anew as a plain tensor.
  at::Tensor make_buffer(std::string_view path, c10::Device device);

  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();

  // What a library keeps with the module as long as it lives, one of each type; null: none.
  template <class T>
  T* attached() const {
    const auto found = attached_.find(typeid(T));
    return found == attached_.end() ? nullptr : static_cast<T*>(found->second.get());
  }
  template <class T>
  void attach(std::shared_ptr<T> what) {
    attached_[typeid(T)] = std::move(what);
  }

  // Gives own parameters their first values, from the current random stream. Not the children's.
  virtual void reset_own_parameters() {}

 protected:
  virtual at::Tensor forward(const Tensors& inputs) = 0;

  // Registers a meta tensor that requires grad.
  void add_parameter(std::string name, at::IntArrayRef shape, at::ScalarType dtype);
  void add_buffer(std::string name, MakeBuffer make);
  template <class M>
  std::shared_ptr<M> add_child(std::string name, std::shared_ptr<M> module) {
    children_.emplace_back(std::move(name), module);
    return module;
  }

 private:
  using Own = Named<at::Tensor> Module::*;
  Named<at::Tensor> all_of(Own own) const;
  std::vector<WithPaths> with_paths(Own own) const;
  Named<Module*> at_all_places();
  template <class T>
  T& at_path(Named<T> Module::*own, const char* kind, std::string_view path);
  at::Tensor call_within(size_t around, Tensors inputs);
  at::Tensor call_forward(const Tensors& inputs);
  at::Tensor call_with_hooks(Tensors inputs);
  template <class F>
  struct Registered {
    int64_t number;
    F call;
    std::string what;
  };
  template <class F>
  using Hooks = std::vector<Registered<F>>;
  template <class F>
  int64_t add_hook(Hooks<F>& hooks, F hook, std::string what) {
    hooks.push_back({next_hook_, std::move(hook), std::move(what)});
    return next_hook_++;
  }
  struct BackwardHooks;

  Named<at::Tensor> parameters_, buffers_;
  Named<MakeBuffer> buffer_makers_;
  Named<std::shared_ptr<Module>> children_;
  Hooks<PreHook> pre_hooks_;
  Hooks<Hook> hooks_;
  Hooks<BackwardPreHook> backward_pre_hooks_;
  Hooks<BackwardHook> backward_hooks_;
  std::vector<std::pair<Around, std::string>> around_;
  Around call_by_, forward_by_;
  ptrdiff_t outermost_ = 0;  // how many, at the end
  std::map<std::type_index, std::shared_ptr<void>> attached_;
  std::shared_ptr<Module*> alive_ = std::make_shared<Module*>(this);  // for backward passes that come later
  int64_t next_hook_ = 0;
  bool training_ = true;
};

// "layers.0 | forward pre | forward_pre:<in>:0:redist(->S1,tp)", a line each.
std::string to_string(const std::vector<Module::HookRow>& rows);

// Materialises what is still on the meta device, then draws all parameters in the order of named_modules:
// under a RandomScope, or on distributed parameters, these are the single device's values whatever the
// placements.
void reset_parameters(Module& module, c10::Device device = c10::kCPU);
// Just memory for the plain parameters that are still on the meta device, without values.
void make_parameters(Module& module, c10::Device device = c10::kCPU);
// Just the buffers that are still on the meta device: for a model whose parameters come from elsewhere.
void make_buffers(Module& module, c10::Device device = c10::kCPU);

}  // namespace lockstep::nn
