// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/sharded_training.h"

#include <algorithm>
#include <tuple>

#include <ATen/ATen.h>

#include "engine/fsdp/unit.h"
#include "engine/nn/checkpoint.h"
#include "engine/nn/distribute.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/in_host.h"
#include "suites/fsdp/buffer_costs.h"
#include "suites/fsdp/padding.h"
#include "suites/fsdp/sharded_model.h"
#include "suites/train/model_plan.h"

namespace lockstep::suites {
namespace {

// Along tp, matrices by rows and columns in turn, and every other vector.
std::vector<nn::ParameterPlacement> tensor_parallel(const nn::Module& model, const DeviceMesh& mesh) {
  std::vector<nn::ParameterPlacement> table;
  if (!has_tp(mesh)) return table;
  size_t i = 0;
  for (const auto& [path, value] : model.named_parameters()) {
    Placements placements(as_size(mesh.ndim()), Replicate{});
    const auto turn = static_cast<int64_t>(i++ % 2);
    if (value.dim() == 2 || turn == 0)
      placements[as_size(mesh.dim_index("tp"))] = Shard{value.dim() == 2 ? turn : 0};
    table.push_back({path, std::move(placements)});
  }
  return table;
}

// Blocks of so many rows of a matrix, as block-wise optimizers ask for them.
FullyShardOptions options_of(const Sharding& s) {
  FullyShardOptions options{
      .mesh_dim = "fsdp", .reshard_after_forward = s.gathered == 0, .order = fsdp::parse_order(s.order)};
  if (s.gathered == 2) options.reshard_after_forward = std::nullopt;
  if (s.among > 0) options.reshard_after_forward = static_cast<int>(s.among);
  if (s.placed != 0)
    options.shard_placement_fn = [](const at::Tensor& parameter) {
      return parameter.dim() == 2 ? std::optional<Placement>(Shard{0}) : std::nullopt;
    };
  if (s.rows > 0)
    options.orig_param_policy = [rows = s.rows](std::string_view, const at::Tensor& parameter) {
      return parameter.dim() == 2 ? rows * parameter.size(1) : int64_t{1};
    };
  return options;
}

// The root alone says in which dtype the model's output is.
MixedPrecisionPolicy policy_of(const Sharding& s, bool is_root) {
  auto policy = s.policy;
  if (!is_root) policy.output_dtype.reset();
  return policy;
}

}  // namespace

ShardedTraining::ShardedTraining(const Sharding& sharding, WorldPtr world, const ShardedFault* fault)
    : sharding_(sharding), fault_(fault) {
  if (fault_ != nullptr && fault_->sharding != nullptr) fault_->sharding(sharding_);
  std::tie(model_, blocks_) = make_model(sharding_);
  if (sharding_.pretrained != 0) give_values();
  if (sharding_.frozen_first != 0) set_frozen(model_->parameters(), true);
  if (world == nullptr)
    stay_plain();
  else
    place(std::move(world));
  // What the one leaves to the default is said for the other.
  for (size_t i = 0; sharding_.recompute != 0 && i < blocks_.size(); ++i)
    if (fault_ != nullptr && fault_->second_runs_draw_anew)
      checkpoint(*blocks_[i], {.preserve_rng_state = false});
    else
      mesh_ ? checkpoint(*blocks_[i]) : checkpoint(*blocks_[i], {.preserve_rng_state = true});
}

void ShardedTraining::place(WorldPtr world) {
  mesh_ = init_device_mesh(sharding_.mesh.device_type(), sharding_.mesh.shape(), sharding_.mesh.names(),
                           std::move(world));
  if (has_tp(mesh_->mesh) || sharding_.ignored > 0)
    nn::distribute_module(*model_, *mesh_, tensor_parallel(*model_, mesh_->mesh));
  auto options = options_of(sharding_);
  options.ignored_params = ignored(sharding_);
  const auto units = unit_paths(sharding_);
  for (size_t i = units.size(); i-- > 0;) {  // inner ones first
    options.mp_policy = policy_of(sharding_, i == 0);
    units_.push_back(fully_shard(modules_of(units[i]), *mesh_, options));
  }
  std::reverse(units_.begin(), units_.end());
  for (size_t i = 1; sharding_.prefetch != 0 && i < units_.size(); ++i) {
    units_[i - 1].set_modules_to_forward_prefetch({units_[i]});
    units_[i].set_modules_to_backward_prefetch({units_[i - 1]});
  }
  for (size_t i = 1; i + 1 < units_.size(); ++i)
    units_[i].unit()->modules().front()->register_forward_pre_hook(
        [this, i](auto&&...) { note_prefetched(i + 1); });
  if (sharding_.kept != 0) units_[0].set_reshard_after_backward(false);
  units_[0].set_gradient_divide_factor(static_cast<double>(sharding_.factor));
  if (fault_ != nullptr && fault_->placed != nullptr) fault_->placed(scene());
}

void ShardedTraining::give_values() {
  const at::NoGradGuard no_grad;
  nn::make_parameters(*model_, sharding_.mesh.device_type());
  auto generator = at::detail::createCPUGenerator(sharding_.seed);
  for (auto& parameter : model_->parameters())
    parameter.copy_(oracle::on_mesh(sharding_.mesh, at::randn(parameter.sizes(), generator, at::kFloat)) / 2);
}

nn::Tensors ShardedTraining::ignored(const Sharding& asked) const {
  const auto parameters = model_->parameters();
  const auto k = asked.ignored;
  return k > 0 && k <= std::ssize(parameters) ? nn::Tensors{parameters[as_size(k - 1)]} : nn::Tensors();
}

void ShardedTraining::set_frozen(const nn::Tensors& parameters, bool on) const {
  if (const auto k = sharding_.frozen; k > 0 && k <= std::ssize(parameters))
    at::Tensor(parameters[as_size(k - 1)]).set_requires_grad(!on);
}

void ShardedTraining::init() {
  manual_seed(sharding_.seed);
  generator().device = sharding_.device;
  std::optional<RandomScope> plain;
  if (!mesh_) plain.emplace(hosted_);
  if (sharding_.pretrained == 0) nn::reset_parameters(*model_, sharding_.mesh.device_type());
  if (sharding_.frozen_first == 0) set_frozen(model_->parameters(), true);
  const auto parameters = model_->parameters();
  optimizer_.emplace(parameters, optimizer_options(sharding_), matrices(parameters));
}

Batches ShardedTraining::batches() const {
  const int64_t tp = has_tp(sharding_.mesh) ? sharding_.mesh.size(sharding_.mesh.dim_index("tp")) : 1;
  const int64_t examples = sharding_.batch * sharding_.mesh.size() / tp;
  Batches batches;
  for (int64_t step = 0; step < sharding_.steps; ++step) {
    auto& passes = batches.emplace_back();
    for (int64_t pass = 0; pass < sharding_.passes; ++pass) {
      const auto seed = sharding_.seed * 64 + static_cast<uint64_t>(step * 8 + pass);
      const auto x = oracle::on_mesh(
          sharding_.mesh,
          at::randn({examples, sharding_.width}, at::detail::createCPUGenerator(seed), at::kFloat)
              .to(sharding_.dtype));
      passes.push_back(mesh_ ? distribute_tensor(x, *mesh_, batch_placements(mesh_->mesh)) : x);
    }
  }
  return batches;
}

at::Tensor ShardedTraining::backward(const at::Tensor& x) {
  auto input = x;
  const bool is_last = pass_ + 1 == sharding_.passes;
  plain_.sync(sharding_.each != 0 || is_last);
  if (mesh_) units_[0].set_requires_gradient_sync(sharding_.each != 0 || is_last);
  if (mesh_) units_[0].set_requires_all_reduce(sharding_.each != 2 || is_last);
  if (fault_ != nullptr && fault_->input != nullptr) fault_->input(scene(), input);
  const auto output = (*model_)(input);
  const bool root = sharding_.gathered != 0, others = sharding_.gathered == 1;
  note_gathered("after a forward", root, others);
  auto loss = (output * output).mean();
  if (fault_ != nullptr && fault_->before_backward != nullptr) fault_->before_backward(scene(), loss);
  loss.backward();
  const bool kept = sharding_.kept != 0, by_hand = sharding_.by_hand != 0;
  note_gathered("after a backward pass", kept || (by_hand && root), kept || (by_hand && others));
  if (fault_ != nullptr && fault_->after_backward != nullptr) fault_->after_backward(scene());
  return loss.detach();
}

at::Tensor ShardedTraining::evaluate(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  model_->eval();
  const auto output = (*model_)(x);
  model_->train();
  plain_.close();
  return (output * output).mean();
}

std::vector<nn::Module*> ShardedTraining::modules_of(const std::vector<std::string>& paths) const {
  std::vector<nn::Module*> modules;
  for (const auto& path : paths) modules.push_back(&model_->child(path));
  return modules;
}

// What is left of it on one device.
void ShardedTraining::stay_plain() {
  const auto alone = ignored(sharding_);
  const auto units = unit_paths(sharding_);
  std::vector<std::vector<std::string>> own(units.size());
  for (const auto& [value, paths] : model_->parameters_with_paths())
    for (const auto& path : paths)
      if (alone.empty() || !alone[0].is_same(value)) own[unit_of(units, path)].push_back(path);
  for (size_t i = 0; i < units.size(); ++i)
    plain_.add(*model_, modules_of(units[i]), std::move(own[i]), policy_of(sharding_, i == 0),
               units[i][0].find('.') != std::string::npos);
  if (sharding_.prefetch != 0) plain_.prefetch();
}

ShardedTraining::Result ShardedTraining::run(const Batches& batches) {
  std::optional<RandomScope> plain;
  if (!mesh_) plain.emplace(hosted_);
  Result result;
  const auto parameters = model_->parameters();
  for (step_ = 0; step_ < std::ssize(batches); ++step_) {
    if (sharding_.thaws != 0 && step_ == 1) set_frozen(parameters, false);  // also where whole ones are shown
    optim::zero_grad(parameters);
    if (sharding_.by_hand != 0) {
      for (auto& unit : units_) unit.unshard(sharding_.by_hand == 2);
      plain_.cast();
    }
    for (pass_ = 0; pass_ < sharding_.passes; ++pass_) {
      result.losses.push_back(backward(batches[as_size(step_)][as_size(pass_)]));
      const bool delivers = sharding_.each != 2 || pass_ + 1 == sharding_.passes;
      plain_.end_pass(static_cast<double>(sharding_.factor), delivers);
    }
    plain_.hand_in();
    if (sharding_.clip != 0) result.norms.push_back(optim::clip_grad_norm_(parameters, 0.5));
    const auto& examples = batches[as_size(step_)][0];
    if (sharding_.evaluates == 2) result.losses.push_back(evaluate(examples));
    optimizer_->step();
    plain_.updated();
    if (sharding_.evaluates == 1) result.losses.push_back(evaluate(examples));
    if (fault_ != nullptr && fault_->after_update != nullptr) fault_->after_update(scene());
  }
  if (sharding_.kept != 0 || sharding_.by_hand != 0 || sharding_.evaluates != 0)
    for (auto& unit : units_) unit.reshard();
  return result;
}

// No backward pass need reach a unit that has nothing to learn, to gather it; one that nobody calls is
// gathered where another prefetches it.
void ShardedTraining::note_gathered(const char* when, bool root, bool others) {
  for (const auto& handle : units_) {
    const bool expected = &handle == &units_.front() ? root : others;
    const auto* buffer = handle.unit()->buffer();
    if (buffer == nullptr || buffer->is_gathered() == expected || !unlike_.empty()) continue;
    auto modules = handle.unit()->modules();
    if (sharding_.unused > 0)
      for (const auto& [path, unused] : blocks_[as_size(sharding_.unused - 1)]->named_modules())
        std::erase(modules, unused);
    if (modules.empty()) continue;
    const bool learns = std::any_of(modules.begin(), modules.end(), [](const auto* module) {
      const auto parameters = module->parameters();
      return std::any_of(parameters.begin(), parameters.end(), [](auto& p) { return p.requires_grad(); });
    });
    if (!expected || learns) unlike_ = concat("a unit is ", expected ? "cut " : "gathered ", when);
  }
}

// While the one before runs, for the first time.
void ShardedTraining::note_prefetched(size_t i) {
  const auto& unit = *units_[i].unit();
  if (is_recomputing() || unit.buffer() == nullptr) return;
  prefetches_ = prefetches_ && (unit.is_gathering() || unit.buffer()->is_gathered());
}

namespace {

// Elements of so many rows of a matrix; of nothing, and of others, one.
int64_t block_of(int64_t rows, at::IntArrayRef shape) {
  return shape.size() == 2 ? std::max<int64_t>(1, rows * shape[1]) : 1;
}

// Whether tensors lie as asked for: as given, or the largest block or tensor first.
bool in_order(const Sharding& asked, const fsdp::GroupLayout& layout) {
  const auto order = fsdp::parse_order(asked.order);
  if (order == fsdp::Order::kBest || has_tp(asked.mesh)) return true;
  std::vector<std::pair<int64_t, size_t>> by;
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto& shape = layout.whole(i)->shape();
    const int64_t block = block_of(asked.rows > 0 ? asked.rows : asked.placed, shape);
    const int64_t elements = layout.whole(i)->numel();
    by.emplace_back(order == fsdp::Order::kBlock ? -block : order == fsdp::Order::kShape ? -elements : 0, i);
  }
  std::sort(by.begin(), by.end());
  int64_t from = 0;
  for (const auto& [key, i] : by) {
    const auto& interval = layout.plan().intervals[i];
    if (interval.start < from) return false;
    from = interval.end;
  }
  return true;
}

}  // namespace

std::string ShardedTraining::untidy(const Sharding& asked) const {
  if (!unlike_.empty()) return unlike_;
  if (asked.prefetch != 0 && !prefetches_) return "a unit has not begun to gather the next one";
  for (const auto& alone : ignored(asked))
    if (!is_replicate(placements(alone).at(as_size(asked.mesh.dim_index("fsdp")))))
      return "an ignored parameter is cut";
  for (const auto& handle : units_) {
    const auto* buffer = handle.unit()->buffer();
    if (auto why = buffer == nullptr ? "" : untidy(asked, *buffer); !why.empty()) return why;
  }
  return "";
}

int64_t ShardedTraining::bytes_of_a_gather() const {
  int64_t bytes = 0;
  for (const auto& handle : units_) {
    const auto* buffer = handle.unit()->buffer();
    if (buffer != nullptr) bytes += needed_to_gather(*buffer).sent;
  }
  return bytes;
}

std::string ShardedTraining::untidy(const Sharding& asked, const fsdp::DBuffer& buffer) const {
  if (buffer.is_gathered()) return "parameters are gathered after a step";
  const auto& layout = buffer.layout();
  if (!in_order(asked, layout)) return concat("tensors do not lie in the order ", asked.order);
  for (size_t r = 0; r < buffer.shards().size(); ++r) {
    const int64_t p = buffer.comm()->positions[r];
    for (size_t i = 0; i < layout.size(); ++i) {
      const auto& shape = layout.whole(i)->shape();
      const auto& here = local_tensors(buffer.whole(i))[r];
      const auto part = layout.in_tensor(i, p);
      for (const int64_t block : {block_of(asked.rows, shape), block_of(asked.placed, here.sizes())})
        if (part.start % block != 0 || (part.end % block != 0 && part.end != here.numel()))
          return concat("elements ", part.start, " to ", part.end, " of ", *layout.whole(i),
                        " cut a block of ", block);
    }
  }
  std::vector<at::Tensor> gradients(layout.size());
  for (const auto& parameter : model_->parameters())
    for (size_t i = 0; i < gradients.size(); ++i)
      if (buffer.has(i, parameter)) gradients[i] = parameter.grad();
  if (auto why = untidy_gradients(buffer, gradients, comes_in_parts(asked)); !why.empty()) return why;
  return written_padding(buffer);
}

}  // namespace lockstep::suites
