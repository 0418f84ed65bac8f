// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/fully_shard.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>

#include "engine/fsdp/unit.h"
#include "engine/layout/layout.h"
#include "engine/nn/checkpoint.h"
#include "engine/nn/distribute.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep {
namespace {

using fsdp::Unit;
using fsdp::UnitParameter;

// What a tensor was before it was cut or distributed, without its memory: another that is the same is shared
// with it.
using Before = c10::weak_intrusive_ptr<c10::TensorImpl>;
Before before(const at::Tensor& tensor) {
  return Before(tensor.getIntrusivePtr());
}
struct Original {
  Before impl;
  std::string path;
};
struct Distributed {
  Before impl;
  at::Tensor buffer;
};

// Kept with a module.
struct Sharded {
  Sharded(std::shared_ptr<Unit> u, size_t i) : unit(std::move(u)), module(i) {}
  ~Sharded() { unit->module_is_gone(module); }
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  std::shared_ptr<Unit> unit;
  size_t module;  // which of the unit's
  std::vector<Original> originals;
  std::vector<Distributed> buffers;
};

void check_not_shared(const std::vector<Original>& a, const std::vector<Original>& b) {
  for (const auto& [impl, path] : a)
    for (const auto& [other, other_path] : b)
      LOCKSTEP_CHECK(impl != other, "[fully_shard] the parameters '", path, "' and '", other_path,
                     "' of two modules ",
                     "that are sharded by themselves are one; shard them with a module that has both");
}

using Modules = std::vector<nn::Module*>;

std::vector<const Sharded*> sharded_within(const Modules& modules) {
  std::vector<const Sharded*> all;
  for (auto* module : modules)
    for (const auto& [path, below] : module->named_modules())
      if (const auto* sharded = below->attached<Sharded>()) all.push_back(sharded);
  return all;
}

struct Found {
  at::Tensor value;
  std::vector<fsdp::ParameterPath> paths;
};

const std::string& path_of(const Found& found) {
  return found.paths.front().path;
}

// Those that are neither ignored nor of a module within that is sharded already.
std::vector<nn::Module::WithPaths> own_parameters(nn::Module& module,
                                                  const std::vector<at::Tensor>& ignored) {
  std::vector<std::string> taken;  // prefixes of paths
  for (const auto& [below, paths] : module.modules_with_paths())
    for (const auto& path : paths)
      if (below->attached<Sharded>() != nullptr) taken.push_back(path + ".");
  const auto is_taken = [&](const std::string& path) {
    return std::any_of(taken.begin(), taken.end(),
                       [&](const auto& prefix) { return path.starts_with(prefix); });
  };
  auto found = module.parameters_with_paths();
  std::erase_if(found, [&](const auto& f) {
    const auto is_it = [&](const at::Tensor& t) { return t.is_same(f.value); };
    if (std::any_of(ignored.begin(), ignored.end(), is_it)) return true;
    const auto one = std::find_if(f.paths.begin(), f.paths.end(), is_taken);
    const auto other = std::find_if_not(f.paths.begin(), f.paths.end(), is_taken);
    LOCKSTEP_CHECK(one == f.paths.end() || other == f.paths.end(), "[fully_shard] the parameter '", *other,
                   "' is '", *one, "', of a module that is sharded by itself; shard a module that has both");
    return one != f.paths.end();
  });
  return found;
}

// Tensors of several modules, each once.
void gather_up(std::vector<Found>& all, const std::vector<nn::Module::WithPaths>& of_one, size_t module) {
  for (const auto& [value, paths] : of_one) {
    auto place = std::find_if(all.begin(), all.end(), [&](const auto& f) { return f.value.is_same(value); });
    if (place == all.end()) place = all.insert(all.end(), {value, {}});
    for (const auto& path : paths) place->paths.push_back({module, path});
  }
}

// As it is when gathered.
SpecPtr whole_spec(const Found& parameter, const MeshInWorld& mesh) {
  const auto& value = parameter.value;
  Placements all(as_size(mesh.mesh.ndim()), Replicate{});
  if (is_dtensor(value)) {
    LOCKSTEP_CHECK(device_mesh(value).comm == mesh.comm, "[fully_shard] the parameter '", path_of(parameter),
                   "' is on a mesh ", to_string(spec(value).mesh()), ", and the call names another, ",
                   to_string(mesh.mesh), ": pass the one that the module was distributed on");
    all = placements(value);
    LOCKSTEP_CHECK(!has_ragged(all), "[fully_shard] the parameter '", path_of(parameter),
                   "' is cut already, with a module around this one; shard inner modules first");
  }
  return std::make_shared<const Spec>(mesh.mesh, all, value.sizes().vec(), value.scalar_type());
}

void check_reshard(const ReshardAfterForward& reshard, int64_t ranks) {
  LOCKSTEP_CHECK(reshard.fits(ranks), "[fully_shard] reshard_after_forward among ", *reshard.among, " of ",
                 ranks, " ranks; name a divisor of these, or true or false");
}

int64_t sharding_dim(const FullyShardOptions& options, const DeviceMesh& mesh) {
  return options.mesh_dim.empty() ? mesh.ndim() - 1 : mesh.dim_index(options.mesh_dim);
}

void check_policy(const MixedPrecisionPolicy& policy) {
  for (const auto& [name, dtype] :
       {std::pair("param_dtype", policy.param_dtype), std::pair("reduce_dtype", policy.reduce_dtype),
        std::pair("output_dtype", policy.output_dtype)})
    LOCKSTEP_CHECK(!dtype || c10::isFloatingType(*dtype), "[fully_shard] mp_policy's ", name, " is ", *dtype,
                   ", in which there are no gradients; name a floating dtype");
}

int64_t block_of(const FullyShardOptions& options, const Found& parameter) {
  if (!options.orig_param_policy) return 1;
  const auto& path = path_of(parameter);
  const int64_t elements = options.orig_param_policy(path, parameter.value);
  LOCKSTEP_CHECK(elements >= 1, "[fully_shard] orig_param_policy says blocks of ", elements,
                 " elements for the parameter '", path, "'; say at least 1");
  return elements;
}

// Elements of a row of what the other mesh dimensions leave to a rank; 1: rows may be cut. Where they leave
// rows of several lengths the GroupLayout cuts nothing.
int64_t row_of(const FullyShardOptions& options, const Found& parameter, const Spec& whole) {
  const auto said = options.shard_placement_fn ? options.shard_placement_fn(parameter.value) : std::nullopt;
  if (!said) return 1;
  const auto ndim = std::ssize(whole.shape());
  const auto* shard = std::get_if<Shard>(&*said);
  LOCKSTEP_CHECK(ndim > 0, "[fully_shard] shard_placement_fn says ", *said, " for the parameter '",
                 path_of(parameter), "', which is one number; say nothing for it");
  LOCKSTEP_CHECK(shard != nullptr && (shard->dim == 0 || shard->dim == -ndim),
                 "[fully_shard] shard_placement_fn says ", *said, " for the parameter '", path_of(parameter),
                 "' of shape ", whole.shape(),
                 "; a shard is a run of its memory: say Shard(0), for whole rows, or nothing, and keep a "
                 "parameter transposed that is to be cut along another dimension");
  const auto part = local_shape(whole, 0);
  return std::max<int64_t>(1, c10::multiply_integers(part.begin() + 1, part.end()));
}

fsdp::GroupTensor group_tensor(const FullyShardOptions& options, const Found& parameter,
                               const MeshInWorld& mesh) {
  auto whole = whole_spec(parameter, mesh);
  const auto granularity = std::lcm(block_of(options, parameter), row_of(options, parameter, *whole));
  return {std::move(whole), granularity};
}

void fill(at::Tensor shard, const at::Tensor& value, const MeshInWorld& mesh) {
  if (value.is_meta()) return;
  const at::NoGradGuard no_grad;
  shard.copy_(is_dtensor(value) ? value : distribute_tensor(value.detach(), mesh, placements(shard)));
}

UnitParameter unit_parameter(const fsdp::DBuffer& buffer, size_t i, Found&& found, const MeshInWorld& mesh) {
  fill(buffer.sharded(i), found.value, mesh);
  auto sharded = parameter(buffer.sharded(i));
  sharded.set_requires_grad(found.value.requires_grad());
  return {std::move(found.paths), std::move(sharded), buffer.whole(i), false};
}

std::shared_ptr<Unit> make_unit(Modules modules, const MeshInWorld& mesh, std::vector<Found> found,
                                const FullyShardOptions& options) {
  if (found.empty()) return std::make_shared<Unit>(std::move(modules), nullptr, std::vector<UnitParameter>());
  std::vector<fsdp::GroupTensor> tensors;
  for (const auto& parameter : found) tensors.push_back(group_tensor(options, parameter, mesh));
  const bool is_floating = c10::isFloatingType(found.front().value.scalar_type());
  auto buffer = std::make_unique<fsdp::DBuffer>(
      mesh.comm, fsdp::GroupLayout(std::move(tensors), sharding_dim(options, mesh.mesh), options.order,
                                   is_floating ? fsdp::GroupDtypes{options.mp_policy.param_dtype,
                                                                   options.mp_policy.reduce_dtype}
                                               : fsdp::GroupDtypes{}));
  std::vector<UnitParameter> parameters;
  for (size_t i = 0; i < found.size(); ++i)
    parameters.push_back(unit_parameter(*buffer, i, std::move(found[i]), mesh));
  return std::make_shared<Unit>(std::move(modules), std::move(buffer), std::move(parameters));
}

struct Buffers {
  std::vector<Distributed> were_plain;  // also of the modules within
  std::vector<Found> now;
};

// Plain buffers are to become replicated DTensors, one of which modules share, also with one within that is
// sharded by itself.
Buffers distributed_buffers(const Modules& modules, const MeshInWorld& mesh,
                            const std::vector<const Sharded*>& within) {
  Buffers buffers;
  auto& all = buffers.were_plain;
  for (const auto* sharded : within) all.insert(all.end(), sharded->buffers.begin(), sharded->buffers.end());
  const auto find = [&](const auto& is_it) { return std::find_if(all.begin(), all.end(), is_it); };
  const auto replicated = [&](nn::Module& module, const std::string& path, const at::Tensor& buffer) {
    const auto itself = find([&](const auto& d) { return d.buffer.is_same(buffer); });
    const auto was = itself == all.end() ? before(buffer) : itself->impl;
    if (const auto first = find([&](const auto& d) { return d.impl == was; }); first != all.end())
      return first->buffer;
    if (is_dtensor(buffer)) return buffer;
    const Placements whole(as_size(mesh.mesh.ndim()), Replicate{});
    return all.emplace_back(was, nn::distributed_buffer(module, path, mesh, whole)).buffer;
  };
  for (size_t i = 0; i < modules.size(); ++i)
    for (auto& [buffer, paths] : modules[i]->buffers_with_paths())
      gather_up(buffers.now, {{replicated(*modules[i], paths.front(), buffer), paths}}, i);
  return buffers;
}

// All units of the model in one lane: this one, then those of the modules within, the last ones first.
void join(Unit& unit, const std::vector<const Sharded*>& within) {
  std::vector<std::shared_ptr<fsdp::Lane>> lanes;
  for (const auto* sharded : within)
    if (std::find(lanes.begin(), lanes.end(), sharded->unit->lane) == lanes.end())
      lanes.push_back(sharded->unit->lane);
  for (auto lane = lanes.rbegin(); lane != lanes.rend(); ++lane)
    for (auto* each : (*lane)->units) {
      unit.lane->units.push_back(each);
      each->lane = unit.lane;
    }
}

void check_modules(const Modules& modules) {
  LOCKSTEP_CHECK(!modules.empty(), "[fully_shard] is given no module");
  for (size_t i = 0; i < modules.size(); ++i) {
    LOCKSTEP_CHECK(modules[i] != nullptr, "[fully_shard] module ", i, " of the list is null");
    LOCKSTEP_CHECK(modules[i]->attached<Sharded>() == nullptr,
                   "[fully_shard] this module is sharded already");
    for (const auto& [path, below] : modules[i]->named_modules())
      for (size_t k = 0; k < modules.size(); ++k)
        LOCKSTEP_CHECK(k == i || below != modules[k], "[fully_shard] of the modules to be sharded ",
                       "together, module ", k, " is within module ", i, ", or the same; leave it out");
  }
}

// @param originals of each of the modules that are to be sharded together
void check_within(const std::vector<std::vector<Original>>& originals,
                  const std::vector<const Sharded*>& within) {
  for (size_t i = 0; i < within.size(); ++i) {
    LOCKSTEP_CHECK(within[i]->unit->lane->passes() == 0,
                   "[fully_shard] within a backward pass of a module within");
    for (const auto& of_one : originals) check_not_shared(of_one, within[i]->originals);
    for (size_t k = 0; k < i; ++k)
      if (within[i]->unit != within[k]->unit) check_not_shared(within[i]->originals, within[k]->originals);
  }
}

void install(nn::Module& module, const std::shared_ptr<Sharded>& sharded) {
  auto* const unit = sharded->unit.get();
  module.attach(sharded);
  module.attach(std::make_shared<BeforeSecondRun>(BeforeSecondRun{[unit] { unit->lane->enter_pass(); }}));
  module.call_around(
      [unit, i = sharded->module](nn::Tensors inputs, const nn::Module::Forward& forward) {
        return unit->call(i, std::move(inputs), forward);
      },
      "fully_shard");
}

template <class Set>
void each_unit(const std::shared_ptr<Unit>& unit, bool recurse, Set&& set) {
  if (!recurse) return set(unit->settings);
  for (const auto* each : sharded_within(unit->modules())) set(each->unit->settings);
}

std::vector<std::weak_ptr<Unit>> units_of(const std::vector<FSDPModule>& modules) {
  std::vector<std::weak_ptr<Unit>> units;
  for (const auto& module : modules) units.push_back(module.unit());
  return units;
}

}  // namespace

void UnshardHandle::wait() {
  unit_->finish_unshard();
}

std::vector<at::Tensor> FSDPModule::parameters() const {
  std::vector<at::Tensor> all;
  const auto is_new = [&](const at::Tensor& t) {
    return std::none_of(all.begin(), all.end(), [&](const auto& other) { return other.is_same(t); });
  };
  for (const auto* module : unit_->modules())
    for (auto& parameter : module->parameters())
      if (is_new(parameter)) all.push_back(std::move(parameter));
  return all;
}

UnshardHandle FSDPModule::unshard(bool async_op) {
  unit_->begin_unshard();
  if (!async_op) unit_->finish_unshard();
  return UnshardHandle(unit_);
}
void FSDPModule::reshard() {
  unit_->reshard();
}
void FSDPModule::set_requires_gradient_sync(bool requires_sync, bool recurse) {
  each_unit(unit_, recurse, [&](auto& settings) { settings.requires_gradient_sync = requires_sync; });
}
void FSDPModule::set_requires_all_reduce(bool requires_all_reduce, bool recurse) {
  each_unit(unit_, recurse, [&](auto& settings) { settings.requires_all_reduce = requires_all_reduce; });
}
void FSDPModule::set_reshard_after_forward(bool reshard, bool recurse) {
  each_unit(unit_, recurse, [&](auto& settings) { settings.reshard_after_forward = reshard; });
}
void FSDPModule::set_reshard_after_backward(bool reshard, bool recurse) {
  each_unit(unit_, recurse, [&](auto& settings) { settings.reshard_after_backward = reshard; });
}
void FSDPModule::set_gradient_divide_factor(double factor, bool recurse) {
  LOCKSTEP_CHECK(factor > 0, "[fully_shard] gradients are divided by ", factor, "; give a positive number");
  each_unit(unit_, recurse, [&](auto& settings) { settings.gradient_divide_factor = factor; });
}
void FSDPModule::set_modules_to_forward_prefetch(const std::vector<FSDPModule>& modules) {
  unit_->settings.forward_prefetch = units_of(modules);
}
void FSDPModule::set_modules_to_backward_prefetch(const std::vector<FSDPModule>& modules) {
  unit_->settings.backward_prefetch = units_of(modules);
}
void FSDPModule::watch_memory(const std::shared_ptr<fsdp::HeldMemory>& memory) {
  for (const auto* each : sharded_within(unit_->modules())) each->unit->watch(memory);
}
fsdp::BufferPlan FSDPModule::plan() const {
  return unit_->buffer() == nullptr ? fsdp::BufferPlan() : unit_->buffer()->layout().plan();
}

FSDPModule fully_shard(nn::Module& module, const MeshInWorld& mesh, FullyShardOptions options) {
  return fully_shard(Modules{&module}, mesh, std::move(options));
}

FSDPModule fully_shard(const std::vector<nn::Module*>& modules, const MeshInWorld& mesh,
                       FullyShardOptions options) {
  check_modules(modules);
  LOCKSTEP_CHECK(mesh.comm != nullptr, "[fully_shard] needs a mesh of init_device_mesh");
  check_policy(options.mp_policy);
  const int64_t ranks = mesh.mesh.size(sharding_dim(options, mesh.mesh));
  check_reshard(options.reshard_after_forward, ranks);
  const auto within = sharded_within(modules);
  std::vector<Found> found;
  std::vector<std::vector<Original>> originals(modules.size());
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto own = own_parameters(*modules[i], options.ignored_params);
    gather_up(found, own, i);
    for (const auto& [value, paths] : own) originals[i].push_back({before(value), paths.front()});
  }
  check_within(originals, within);
  auto buffers = distributed_buffers(modules, mesh, within);  // which may throw, and has changed nothing then
  const auto unit = make_unit(modules, mesh, std::move(found), options);
  for (const auto& [buffer, paths] : buffers.now)
    for (const auto& [module, path] : paths) modules[module]->set_buffer(path, buffer);
  unit->settings.policy = options.mp_policy;
  const auto reshard = options.reshard_after_forward.on(ranks);
  unit->settings.reshard_after_forward = reshard.reshards;
  unit->settings.reshard_among = reshard.among;
  join(*unit, within);
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto sharded = std::make_shared<Sharded>(unit, i);
    sharded->originals = std::move(originals[i]);
    sharded->buffers = buffers.were_plain;
    install(*modules[i], sharded);
  }
  return FSDPModule(unit);
}

}  // namespace lockstep
