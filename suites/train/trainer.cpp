// SPDX-License-Identifier: Apache-2.0
#include "suites/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "engine/debug/breakpoint.h"
#include "engine/static_eager/static_eager.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"
#include "suites/train/ablated_world.h"
#include "suites/train/model_plan.h"
#include "suites/train/team.h"
#include "suites/train/train_fault.h"

namespace lockstep::suites {
namespace {

TrainOptions with_fault(TrainOptions options) {
  if (options.fault && options.fault->options) options.fault->options(options);
  return options;
}

// A copy of the global value, put together by the oracle from every rank's local; none where others lead.
at::Tensor global_copy(const at::Tensor& tensor, const std::string& what, std::string& disagreement) {
  if (!tensor.defined()) return tensor;
  if (!is_dtensor(tensor)) return tensor.is_cpu() ? tensor.detach().clone() : oracle::in_host(tensor);
  const auto locals = gathered(tensor);
  if (std::ssize(locals) != spec(tensor).mesh().size()) return {};
  const auto assembly = oracle::assemble(locals, spec(tensor));
  if (assembly.disagreement && disagreement.empty())
    disagreement = concat(what, ": ", assembly.disagreement->text);
  return assembly.global;
}

// Null: this process hosts every rank.
WorldPtr world_of(const TrainOptions& o) {
  if (o.without != Without::kDBuffer && o.without != Without::kOverlap) return o.world;
  const auto world = o.world ? o.world : local_world(o.mesh->size(), o.on);
  return o.without == Without::kDBuffer ? packing(world) : waiting(world);
}

void write(at::Tensor parameter, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  parameter.copy_(value);
}

}  // namespace

Trainer::Trainer(const TrainOptions& options)
    : options_(with_fault(options)), model_(make_model(model_options(options_))) {
  if (options_.keeps_choices) model_->keep_choices();
  if (options_.fault && options_.fault->model) options_.fault->model(*model_);
  if (options_.mesh)
    parallelize();
  else
    stay_plain();
  if (!options_.break_at.empty()) break_at(*model_, options_.break_at);
}

void Trainer::parallelize() {
  mesh_ = init_device_mesh(options_.on, options_.mesh->shape(), options_.mesh->names(), world_of(options_));
  const bool has_tiles =
      options_.optimizer == OptimizerKind::kAdamW8bit && options_.without != Without::kPlanning;
  parallelize_model(*model_, model_options(options_), *mesh_, options_.precision,
                    has_tiles ? options_.block_size : 0);
}

void Trainer::stay_plain() {
  if (!options_.precision.param_dtype && !options_.precision.reduce_dtype) return;
  const auto paths_of = [](const nn::Module& module) {
    std::vector<std::string> all;
    for (const auto& [value, paths] : module.parameters_with_paths())
      all.insert(all.end(), paths.begin(), paths.end());
    return all;
  };
  const auto model = model_options(options_);
  const auto layers = concat(layers_path(model), ".");
  auto own = paths_of(*model_);
  std::erase_if(own, [&](const std::string& path) { return path.starts_with(layers); });
  units_.add(*model_, {model_.get()}, std::move(own), options_.precision);
  for (int64_t i = 0; i < model.layers; ++i) {
    auto& layer = model_->child(concat(layers, i));
    units_.add(layer, {&layer}, paths_of(layer), options_.precision);
  }
}

void Trainer::seed_stream(uint64_t part) const {
  manual_seed(options_.seed + part);
  generator().device = options_.device;
}

std::optional<RandomScope> Trainer::plain_draws(RandomPolicy policy) {
  if (mesh_) return std::nullopt;
  if (policy == RandomPolicy::kIndexed) return std::optional<RandomScope>(std::in_place, indexed_);
  return std::optional<RandomScope>(std::in_place, hosted_);
}

void Trainer::make_optimizer() {
  optimizer_.emplace(model_->parameters(), options_,
                     by_muon(model_->named_parameters(), layers_path(model_options(options_))));
}

void Trainer::init() {
  seed_stream(0);
  const RandomPolicyScope policy(options_.init);
  const auto plain = plain_draws(options_.init);
  nn::reset_parameters(*model_, options_.on);
  make_optimizer();
  seed_stream(1);
}

void Trainer::load(const TrainState& state) {
  nn::make_buffers(*model_, options_.on);
  OptimizerState optimizer{std::vector<nn::Tensors>(state.optimizer.moments.size()), state.optimizer.steps};
  size_t i = 0;
  for (const auto& [parameter, paths] : model_->parameters_with_paths()) {
    const auto value = placed_like(state.parameters.at(i), parameter);
    if (mesh_) {
      write(parameter, value);
    } else {
      value.requires_grad_();
      for (const auto& path : paths) model_->set_parameter(path, value);
    }
    for (size_t k = 0; k < optimizer.moments.size(); ++k)
      optimizer.moments[k].push_back(placed_like(state.optimizer.moments[k].at(i), parameter));
    ++i;
  }
  make_optimizer();
  optimizer_->load_state(std::move(optimizer));
  generator() = {state.random, options_.device};
}

TrainState Trainer::state() const {
  const auto now = optimizer();
  TrainState state{generator().state, {}, {std::vector<nn::Tensors>(now.moments.size()), now.steps}, ""};
  size_t i = 0;
  for (const auto& [path, parameter] : model_->named_parameters()) {
    const auto copy = [&](const at::Tensor& t) { return global_copy(t, path, state.disagreement); };
    state.parameters.push_back(copy(parameter));
    for (size_t k = 0; k < now.moments.size(); ++k)
      state.optimizer.moments[k].push_back(copy(now.moments[k].at(i)));
    ++i;
  }
  return state;
}

// As torch's get_state_dict names them, and saves them with a model's as "model" and "optim".
std::vector<dcp::NamedTensor> Trainer::named(const OptimizerState& optimizer) const {
  std::vector<dcp::NamedTensor> all;
  const auto moments = optimizer_->moment_names();
  size_t i = 0;
  for (const auto& [path, parameter] : model_->named_parameters()) {
    all.push_back({"model." + path, parameter});
    const auto of = concat("optim.state.", path, ".");
    for (size_t k = 0; k < moments.size(); ++k) {
      const auto& moment = optimizer.moments[k].at(i);
      if (!moment.defined()) continue;
      const bool is_scales = moments[k].ends_with(".scales");  // or, without codes, the moment itself
      const auto name = is_scales && !optimizer.moments[k - 1].at(i).defined()
                            ? moments[k].substr(0, moments[k].find('.'))
                            : moments[k];
      all.push_back({of + name, moment});
    }
    if (!optimizer.steps.empty() && optimizer.steps.at(i) > 0)
      all.push_back({of + "step", at::scalar_tensor(optimizer.steps[i], at::kFloat)});
    ++i;
  }
  return all;
}

void Trainer::save(const std::string& folder, const dcp::Metadata& metadata) const {
  dcp::save(folder, named(optimizer()), metadata, mesh_ && options_.world ? mesh_->world : options_.world);
}

dcp::Metadata Trainer::resume(const std::string& folder) {
  // What a step leaves is what is loaded: of every parameter, as it is placed. torch's _init_optim_state.
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
  optimizer_->step();
  optim::zero_grad(model_->parameters());
  auto state = optimizer();
  const auto into = named(state);
  auto metadata = dcp::load(folder, into, dcp::Extra::kRefused, options_.world);
  auto count = state.steps.begin();
  for (const auto& [name, value] : into) {
    if (!name.ends_with(".step")) continue;
    count = std::find_if(count, state.steps.end(), [](int64_t n) { return n > 0; });
    const double steps = value.item().toDouble();
    LOCKSTEP_CHECK(steps >= 1 && steps < 1e9 && steps == std::floor(steps), "[train] ", name, " in ", folder,
                   " is ", steps, ", which is no number of steps");
    *count++ = static_cast<int64_t>(steps);
  }
  optimizer_->load_state(std::move(state));
  return metadata;
}

at::Tensor Trainer::placed(const at::Tensor& tensor) const {
  const auto there = tensor.to(options_.on);
  return mesh_ ? distribute_tensor(there, *mesh_, batch_placements(mesh_->mesh)) : there;
}

at::Tensor Trainer::placed_like(const at::Tensor& value, const at::Tensor& parameter) const {
  if (!value.defined()) return value;
  if (mesh_ && value.sizes() != parameter.sizes())
    return distribute_tensor(value.to(options_.on), *mesh_,
                             Placements(as_size(mesh_->mesh.ndim()), Replicate{}));
  if (mesh_) return distribute_tensor(value.to(options_.on), *mesh_, placements(parameter));
  return options_.on == c10::kCPU ? value.clone() : oracle::moved(value, options_.on);
}

Batch Trainer::batch(std::string_view text, int64_t step) const {
  const auto global = make_batch(text, options_.seed, step, options_.batch, options_.sequence);
  const auto vocabulary = model_options(options_).vocabulary;
  const auto folded = [&](const at::Tensor& tokens) {
    return vocabulary > kBeginToken ? tokens : tokens.remainder(vocabulary);
  };
  return {placed(folded(global.tokens)), placed(folded(global.targets))};
}

Trainer::Result Trainer::step(const Batch& batch) {
  const RandomPolicyScope policy(options_.drop);
  const auto plain = plain_draws(options_.drop);
  if (options_.statically && mesh_ && static_ == nullptr) static_ = static_passes(batch);
  optim::zero_grad(model_->parameters(), options_.set_to_none);
  const auto loss = (*model_)(batch.tokens, batch.targets);
  loss.backward();
  units_.end_pass();
  units_.hand_in();
  const auto norm = optim::clip_grad_norm_(model_->parameters(), options_.max_norm);
  if (options_.fault && options_.fault->update) options_.fault->update(model_->parameters(), *optimizer_);
  optimizer_->step();
  units_.updated();
  return {loss.detach(), norm};
}

std::unique_ptr<StaticEager> Trainer::static_passes(const Batch& batch) {
  return std::make_unique<StaticEager>(*model_, [&] { (*model_)(batch.tokens, batch.targets).backward(); });
}

std::vector<int32_t> Trainer::choices() const {
  std::vector<int32_t> all;
  if (!options_.keeps_choices) return all;
  for (const auto& chosen : model_->chosen()) {
    const auto whole = (mesh_ ? full_tensor(chosen) : chosen).to(at::kCPU);
    const auto sorted = std::get<0>(whole.sort(-1)).to(at::kInt).contiguous();
    all.insert(all.end(), sorted.const_data_ptr<int32_t>(),
               sorted.const_data_ptr<int32_t>() + sorted.numel());
  }
  return all;
}

at::Tensor Trainer::evaluate(const Batch& batch) {
  const at::NoGradGuard no_grad;
  model_->eval();
  auto loss = (*model_)(batch.tokens, batch.targets);
  model_->train();
  units_.close();
  return loss;
}

}  // namespace lockstep::suites
