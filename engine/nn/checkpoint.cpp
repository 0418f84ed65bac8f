// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::Node;
using torch::autograd::variable_list;

thread_local int running_first = 0, running_again = 0;

// While alive, one more block runs.
struct Running {
  explicit Running(int& count) : running(count) { ++running; }
  ~Running() { --running; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  int& running;
};

// libtorch's generators, of which plain tensors draw: of the host, and of the devices of these tensors.
class PlainDraws {
 public:
  explicit PlainDraws(const Tensors& tensors) {
    add(c10::kCPU);
    for (const auto& t : tensors)
      if (t.defined() && t.is_cuda()) add(t.device());
  }
  // From now on they draw what they drew then; `restore` again.
  void restore() const {
    for (auto [own, state] : drawing_) {
      const std::lock_guard lock(own.mutex());
      own.set_state(state);
    }
  }

 private:
  void add(c10::Device device) {
    if (std::any_of(drawing_.begin(), drawing_.end(), [&](auto& d) { return d.own.device() == device; }))
      return;
    auto own = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(own.mutex());
    drawing_.push_back({own, own.get_state()});
  }
  struct Drawing {
    at::Generator own;
    at::Tensor state;
  };
  std::vector<Drawing> drawing_;
};

// Autocast of a thread: as it is where this is made, and from use() on.
class Autocast {
 public:
  Autocast() {
    for (const auto device : {c10::kCPU, c10::kCUDA})
      casts_.push_back(
          {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)});
  }
  void use() const {
    for (const auto& [device, enabled, dtype] : casts_) {
      at::autocast::set_autocast_enabled(device, enabled);
      at::autocast::set_autocast_dtype(device, dtype);
    }
    at::autocast::set_autocast_cache_enabled(caches_);
  }

 private:
  struct Cast {
    c10::DeviceType device;
    bool enabled;
    at::ScalarType dtype;
  };
  std::vector<Cast> casts_;
  bool caches_ = at::autocast::is_autocast_cache_enabled();
};

struct Block : torch::CustomClassHolder {
  Block(std::function<Tensors(const Tensors&)> b, CheckpointOptions o, bool leaves, const Tensors& inputs)
      : run(std::move(b)), options(o), has_leaves(leaves) {
    if (options.preserve_rng_state) plain.emplace(inputs);
  }
  std::function<Tensors(const Tensors&)> run;
  std::function<void()> before_second_run = [] {};
  CheckpointOptions options;
  bool has_leaves;  // to which gradients go beside those of its inputs
  Generator before = generator();
  std::optional<PlainDraws> plain;
  Autocast autocast;
  std::map<const void*, std::vector<std::shared_ptr<void>>> left;  // by the first run, under keys
};
using BlockPtr = c10::intrusive_ptr<Block>;

// The innermost block that runs.
struct Run {
  Block* block = nullptr;
  std::map<const void*, size_t> taken = {};  // of what was left, under keys
};
thread_local Run innermost;

Tensors run_in(Block& block, const Tensors& inputs) {
  const struct Within {
    explicit Within(Block& b) : around(std::exchange(innermost, Run{&b})) {}
    ~Within() { innermost = std::move(around); }
    Run around;
  } within(block);
  return block.run(inputs);
}

// Throws where the history of `results` leads to a leaf that is not among `inputs`.
void check_closed(const Tensors& results, const Tensors& inputs) {
  std::unordered_set<const Node*> seen;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) seen.insert(torch::autograd::impl::grad_accumulator(input).get());
  std::vector<const Node*> open;
  for (const at::Tensor& result : results)
    if (result.grad_fn()) open.push_back(result.grad_fn().get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    LOCKSTEP_CHECK(leaf == nullptr, "[checkpoint] the block reads a tensor of shape ", leaf->variable.sizes(),
                   " that requires a gradient and is not among its inputs, so none ",
                   "would come to it: hand it in as an input");
    for (const auto& edge : node->next_edges())
      if (edge.is_valid()) open.push_back(edge.function.get());
  }
}

// While alive, ops of this thread run as those of the block's first run did.
class AsBefore {
 public:
  AsBefore(const Block& block, const Tensors& inputs) {
    block.autocast.use();
    at::autocast::increment_nesting();
    if (!block.options.preserve_rng_state) return;
    fork_.emplace();
    generator() = block.before;
    plain_.emplace(inputs);
    block.plain->restore();
  }
  ~AsBefore() {
    if (plain_) plain_->restore();
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    autocast_.use();
  }
  AsBefore(const AsBefore&) = delete;
  AsBefore& operator=(const AsBefore&) = delete;

 private:
  const Autocast autocast_;
  std::optional<ForkRng> fork_;
  std::optional<PlainDraws> plain_;
};

// The block once more, on inputs that begin a history of their own.
Tensors run_again(Block& block, const Tensors& inputs) {
  const AsBefore as_before(block, inputs);
  const at::AutoGradMode with_history(true);
  Tensors results = run_in(block, inputs);
  if (!block.has_leaves) check_closed(results, inputs);
  return results;
}

// The gradients of `inputs`; those of the leaves that the block has are added up there.
Tensors gradients_of(const Block& block, const Tensors& roots, const Tensors& inputs, const Tensors& seeds) {
  if (roots.empty()) return Tensors(inputs.size());
  if (!block.has_leaves)
    return torch::autograd::grad(roots, inputs, seeds, /*retain_graph=*/false, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  torch::autograd::backward(roots, seeds);
  Tensors gradients;
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const BlockPtr& block) {
    ctx->set_materialize_grads(false);  // where no gradient arrives none goes back
    ctx->saved_data["block"] = at::IValue::make_capsule(block);
    ctx->save_for_backward(inputs.vec());
    const Running first(running_first);
    return run_in(*block, inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& arriving) {
    LOCKSTEP_CHECK(!at::GradMode::is_enabled(),
                   "[checkpoint] gradients that pass a checkpoint have no history ",
                   "of their own: run the block without one, or backward without create_graph");
    const auto block = c10::static_intrusive_pointer_cast<Block>(ctx->saved_data["block"].toCapsule());
    LOCKSTEP_CHECK(!block->has_leaves || torch::autograd::Engine::get_default_engine().is_checkpoint_valid(),
                   "[checkpoint] a pass for some tensors alone (autograd::grad, or backward with inputs) "
                   "would add to the ",
                   "gradients of a checkpointed module's parameters; use backward(), or the module without a "
                   "checkpoint");
    block->before_second_run();
    Tensors inputs, wanted;
    for (const at::Tensor& saved : ctx->get_saved_variables()) {
      inputs.push_back(saved.detach());
      if (saved.requires_grad()) wanted.push_back(inputs.back().requires_grad_(true));
    }
    const Running again(running_again);
    const Tensors results = run_again(*block, inputs);
    Tensors roots, seeds;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!arriving[i].defined() || !results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      seeds.push_back(arriving[i]);
    }
    const Tensors found = gradients_of(*block, roots, wanted, seeds);
    variable_list gradients;
    size_t next = 0;
    for (const at::Tensor& input : inputs)
      gradients.push_back(input.requires_grad() ? found[next++] : at::Tensor());
    gradients.emplace_back();  // of the block
    return gradients;
  }
};

}  // namespace

Tensors checkpoint(std::function<Tensors(const Tensors&)> block, const Tensors& inputs,
                   CheckpointOptions options) {
  return Checkpoint::apply(at::TensorList(inputs),
                           c10::make_intrusive<Block>(std::move(block), options, false, inputs));
}

namespace {

using Life = std::weak_ptr<nn::Module*>;

thread_local Tensors standing_in;

bool stands_in(const at::Tensor& parameter) {
  return std::any_of(standing_in.begin(), standing_in.end(),
                     [&](const at::Tensor& t) { return t.is_same(parameter); });
}

// One call of a module, to run twice.
class Call {
 public:
  Call(const Life& life, nn::Module::Forward forward, const Tensors& inputs)
      : life_(life), forward_(std::move(forward)) {
    for (const auto& input : inputs) defined_.push_back(input.defined());
    for (auto& [parameter, paths] : (*life.lock())->parameters_with_paths())
      parameters_.push_back(
          {std::move(paths), parameter, static_cast<int64_t>(parameter._version()), stands_in(parameter)});
  }

  // Of its inputs those that are there; and one that requires a gradient if a parameter does, though no input
  // may.
  Tensors operands(const Tensors& inputs) const {
    Tensors there;
    for (const auto& input : inputs)
      if (input.defined()) there.push_back(input);
    const auto requires_grad = [](const auto& p) { return p.tensor.requires_grad(); };
    if (std::any_of(parameters_.begin(), parameters_.end(), requires_grad))
      there.push_back(at::Tensor(at::detail::empty_cpu({0}, at::kFloat)).requires_grad_());
    return there;
  }

  Tensors run(const Tensors& operands) const {
    Tensors inputs;
    size_t next = 0;
    for (const bool defined : defined_) inputs.push_back(defined ? operands.at(next++) : at::Tensor());
    if (!is_recomputing()) return {forward_(std::move(inputs))};
    StandIns as_before(**life_.lock());
    for (const auto& p : parameters_)
      if (p.stands_in) as_before.set(p.paths, p.tensor);
    return {forward_(std::move(inputs))};
  }

  void before_second_run() const {
    const auto module = life_.lock();
    LOCKSTEP_CHECK(
        module != nullptr,
        "[checkpoint] the module has been destroyed before its backward pass; let it live until then");
    for (const auto& p : parameters_)
      LOCKSTEP_CHECK(static_cast<int64_t>(p.tensor._version()) == p.version, "[checkpoint] the parameter '",
                     p.paths.front(),
                     "' was written between a forward and its backward pass; write it after both");
    for (const auto& [path, below] : (*module)->named_modules())
      if (const auto* before = below->attached<BeforeSecondRun>()) before->call();
  }

 private:
  struct Parameter {
    std::vector<std::string> paths;
    at::Tensor tensor;
    int64_t version;
    bool stands_in;
  };
  const Life life_;
  const nn::Module::Forward forward_;
  std::vector<bool> defined_;  // inputs
  std::vector<Parameter> parameters_;
};

}  // namespace

void StandIns::set(const std::vector<std::string>& paths, const at::Tensor& value) {
  all_.push_back({paths, module_.parameter(paths.front())});
  standing_in.push_back(value);
  for (const auto& path : paths) module_.set_parameter(path, value);
}

StandIns::~StandIns() {
  for (const auto& [paths, was] : all_) {
    standing_in.pop_back();
    for (const auto& path : paths) module_.set_parameter(path, was);
  }
}

void checkpoint(nn::Module& module, CheckpointOptions options) {
  const auto around = [life = module.life(), options](Tensors inputs, const nn::Module::Forward& forward) {
    if (!at::GradMode::is_enabled()) return forward(std::move(inputs));
    const auto call = std::make_shared<const Call>(life, forward, inputs);
    const auto run = [call](const Tensors& operands) { return call->run(operands); };
    const auto block = c10::make_intrusive<Block>(run, options, /*leaves=*/true, inputs);
    block->before_second_run = [call] { call->before_second_run(); };
    const auto operands = call->operands(inputs);
    return Checkpoint::apply(at::TensorList(operands), block)[0];
  };
  module.call_around(around, "checkpoint", /*outermost=*/true);
}

void leave_for_second_run(const void* key, std::shared_ptr<void> what) {
  if (innermost.block != nullptr) innermost.block->left[key].push_back(std::move(what));
}

std::shared_ptr<void> take_from_first_run(const void* key) {
  if (innermost.block == nullptr) return nullptr;
  const auto& left = innermost.block->left[key];
  auto& taken = innermost.taken[key];
  return taken < left.size() ? left[taken++] : nullptr;
}

bool is_first_run() {
  return running_first > 0;
}

bool is_recomputing() {
  return running_again > 0;
}

}  // namespace lockstep
