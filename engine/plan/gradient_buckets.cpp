// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/gradient_buckets.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "engine/layout/layout.h"
#include "engine/nn/backward_passes.h"
#include "engine/nn/checkpoint.h"
#include "engine/plan/bucket.h"
#include "engine/tensor/gradients.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += concat(text.empty() ? "" : ", ", name);
  return text;
}

std::vector<int64_t> dims_of(const DeviceMesh& mesh, const std::vector<std::string>& names) {
  LOCKSTEP_CHECK(!names.empty(), "[buckets] no mesh dimension; name those along which gradients pend");
  std::vector<int64_t> dims;
  for (const auto& name : names) dims.push_back(mesh.dim_index(name));
  std::sort(dims.begin(), dims.end());
  LOCKSTEP_CHECK(std::adjacent_find(dims.begin(), dims.end()) == dims.end(),
                 "[buckets] a mesh dimension is named twice in ", listed(names), "; name it once");
  return dims;
}

// Called when a gradient has been added to its leaf.
class WhenAdded : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit WhenAdded(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const torch::autograd::Variable&) override { call_(); }

 private:
  const std::function<void()> call_;
};

// Whether the pass that runs gives the gradient to whoever asked for it, and not to the leaf: autograd::grad.
bool is_captured(const at::Tensor& leaf) {
  const auto* info = torch::autograd::get_current_graph_task_exec_info();
  if (info == nullptr || info->empty()) return false;
  const auto found = info->find(torch::autograd::impl::grad_accumulator(leaf).get());
  return found == info->end() || !found->second.needed_;
}

}  // namespace

// A parameter, and what of its gradient is not in it: while terms come, what had been added up before.
struct Pending {
  at::Tensor leaf, kept;
  Placements terms;  // of its gradient
  size_t bucket = 0;
  int64_t came_in = 0, added_in = 0;  // the pass in which a gradient has come, and been added, last
};

struct GradientBuckets::Impl : std::enable_shared_from_this<Impl> {
  Impl(CommPtr of, BucketOptions asked)
      : options(std::move(asked)), dims(dims_of(of->mesh, options.mesh_dims)), comm(std::move(of)) {}

  void check(const std::string& path, const at::Tensor& parameter) const;
  at::Tensor add(const at::Tensor& parameter);
  void deal_out();
  void watch(nn::Module& module);
  at::Tensor come(size_t i, const at::Tensor& gradient);
  void added(size_t i);
  void begin(size_t b);
  void finish_pass();
  void put_back();
  void drop();
  void forget_pass();
  void hand_in();

  const BucketOptions options;
  const std::vector<int64_t> dims;
  const CommPtr comm;
  std::vector<Pending> parameters;
  std::vector<std::vector<size_t>> buckets;  // in the order in which they are to go
  std::vector<std::unique_ptr<Bucket>> on_their_way;
  std::vector<Bucket*> filling;  // by bucket: of these, the one to which more passes come; null: none
  bool syncs = true;
  std::shared_ptr<nn::BackwardPasses> passes;
};

void GradientBuckets::Impl::check(const std::string& path, const at::Tensor& parameter) const {
  const auto& its = *require_dtensor(parameter, "buckets").spec();
  for (const auto d : dims)
    LOCKSTEP_CHECK(is_replicate(its.placements()[as_size(d)]), "[buckets] the parameter '", path, "' is ",
                   its, ", ", its.placements()[as_size(d)], " along '", comm->mesh.names()[as_size(d)],
                   "'; only what is replicated there has terms on each rank");
  LOCKSTEP_CHECK(options.order != SumOrder::kExact || comm->mesh.device_type() == c10::kCPU,
                 "[buckets] exact sums are made on the CPU, and the mesh is on ", comm->mesh.device_type(),
                 "; take the order of ranks, or a tree");
  path_of(options.order, options.hops, its.dtype());
}

at::Tensor GradientBuckets::Impl::add(const at::Tensor& parameter) {
  const auto& its = *dtensor_impl(parameter);
  Pending pending;
  pending.terms = dual(its.spec()->placements());
  for (const auto d : dims) pending.terms[as_size(d)] = Partial{};
  pending.leaf = parameter.detach().requires_grad_(parameter.requires_grad());
  if (!parameter.requires_grad()) return pending.leaf;
  const size_t i = parameters.size();
  pending.leaf.register_hook(
      [self = weak_from_this(), i, spec = its.spec(), on = comm](const at::Tensor& gradient) {
        const auto impl = self.lock();
        if (!gradient.defined()) return at::Tensor();
        return impl == nullptr ? for_leaf(settled(gradient, spec, on)) : impl->come(i, gradient);
      });
  torch::autograd::impl::set_post_acc_grad_hooks(pending.leaf,
                                                 std::make_unique<WhenAdded>([self = weak_from_this(), i] {
                                                   if (const auto impl = self.lock()) impl->added(i);
                                                 }));
  parameters.push_back(std::move(pending));
  return parameters.back().leaf;
}

// From the last parameter on, by dtype and by what the first rank has, which has the most.
void GradientBuckets::Impl::deal_out() {
  std::map<c10::ScalarType, std::pair<size_t, int64_t>> open;  // a bucket, and its bytes
  for (size_t i = parameters.size(); i-- > 0;) {
    const auto& leaf = parameters[i].leaf;
    const auto bytes = c10::multiply_integers(local_shape(*dtensor_impl(leaf)->spec(), 0)) *
                       static_cast<int64_t>(leaf.element_size());
    const auto [found, is_new] = open.try_emplace(leaf.scalar_type(), buckets.size(), 0);
    auto& [bucket, filled] = found->second;
    if (!is_new && filled + bytes > options.bucket_bytes) bucket = buckets.size(), filled = 0;
    if (bucket == buckets.size()) buckets.emplace_back();
    filled += bytes;
    parameters[i].bucket = bucket;
    buckets[bucket].push_back(i);
  }
  filling.resize(buckets.size());
}

// The pass in which the module's output has a gradient is the outermost, whatever runs again within it.
void GradientBuckets::Impl::watch(nn::Module& module) {
  passes = std::make_shared<nn::BackwardPasses>(
      [self = weak_from_this()] {
        if (const auto impl = self.lock()) impl->finish_pass();
      },
      [self = weak_from_this()] {
        if (const auto impl = self.lock()) impl->forget_pass();
      });
  module.register_full_backward_pre_hook([own = passes](nn::Module&, at::Tensor&) { own->enter(); },
                                         "gradients in buckets over " + listed(options.mesh_dims));
}

// Before it is added to the leaf.
at::Tensor GradientBuckets::Impl::come(size_t i, const at::Tensor& gradient) {
  auto& parameter = parameters[i];
  const auto& spec = dtensor_impl(parameter.leaf)->spec();
  if (is_captured(parameter.leaf)) return for_leaf(settled(gradient, spec, comm));
  auto terms = for_leaf(settled(gradient, spec, comm, parameter.terms));
  passes->enter();
  auto& before = parameter.leaf.mutable_grad();
  // Whoever has taken the gradient away since has taken what is kept, too.
  if (std::exchange(parameter.came_in, passes->number()) != passes->number() && !before.defined())
    parameter.kept.reset();
  if (before.defined() && placements(before) != parameter.terms) {
    const at::NoGradGuard no_grad;
    const auto earlier = std::exchange(before, at::Tensor());
    parameter.kept = parameter.kept.defined() ? parameter.kept.add(earlier) : earlier;
  }
  return terms;
}

// A parameter of several blocks that run again has a gradient of each.
void GradientBuckets::Impl::added(size_t i) {
  parameters[i].added_in = passes->number();
  if (!(syncs || tells_passes(options.order, options.hops)) || is_recomputing()) return;
  const auto& bucket = buckets[parameters[i].bucket];
  const auto is_there = [&](size_t k) { return parameters[k].added_in == passes->number(); };
  if (std::all_of(bucket.begin(), bucket.end(), is_there)) begin(parameters[i].bucket);
}

// Takes what has come to its gradients. Of passes that are told apart all gradients have a place in it, since
// another pass may bring what this one did not.
void GradientBuckets::Impl::begin(size_t b) {
  const auto dtype = parameters[buckets[b].front()].leaf.scalar_type();
  const auto path = path_of(options.order, options.hops, dtype);
  std::vector<size_t> which;
  std::vector<at::Tensor> terms;
  bool any = false;
  for (const auto i : buckets[b]) {
    auto& gradient = parameters[i].leaf.mutable_grad();
    const bool came = gradient.defined() && placements(gradient) == parameters[i].terms;
    any |= came;
    if (!came && !path.tells_passes()) continue;
    which.push_back(i);
    terms.push_back(came ? std::exchange(gradient, at::Tensor()) : at::Tensor());
  }
  auto*& bucket = filling[b];
  if (!any && bucket == nullptr) return;
  if (bucket == nullptr) {
    std::vector<SpecPtr> like;
    for (const auto i : which) like.push_back(dtensor_impl(parameters[i].leaf)->spec());
    bucket =
        on_their_way.emplace_back(std::make_unique<Bucket>(std::move(which), like, comm, dims, path)).get();
  }
  if (any) bucket->add(terms);
  if (!syncs) return;
  bucket->close();
  bucket = nullptr;
}

// Of autograd::grad, say, which takes gradients elsewhere, nothing has come.
void GradientBuckets::Impl::finish_pass() {
  if (!syncs && !tells_passes(options.order, options.hops)) return;
  if (std::none_of(parameters.begin(), parameters.end(),
                   [this](const Pending& parameter) { return parameter.came_in == passes->number(); }))
    return;
  try {
    for (size_t b = 0; b < buckets.size(); ++b) begin(b);
    for (auto& bucket : on_their_way) bucket->settle();
    if (syncs)
      hand_in();
    else
      put_back();
  } catch (...) {
    drop();
    throw;
  }
}

// What had been added up before is the gradient again, where no terms have come to it.
void GradientBuckets::Impl::put_back() {
  for (auto& parameter : parameters)
    if (parameter.kept.defined() && !parameter.leaf.grad().defined())
      parameter.leaf.mutable_grad() = std::exchange(parameter.kept, at::Tensor());
}

void GradientBuckets::Impl::drop() {
  on_their_way.clear();
  std::fill(filling.begin(), filling.end(), nullptr);
}

// Terms that were on their way are lost with the pass; where passes are told apart, those that were not yet,
// too.
void GradientBuckets::Impl::forget_pass() {
  drop();
  if (tells_passes(options.order, options.hops))
    for (auto& parameter : parameters)
      if (auto& gradient = parameter.leaf.mutable_grad();
          gradient.defined() && placements(gradient) == parameter.terms)
        gradient.reset();
  put_back();
}

// Parameter by parameter: the timeline has passes that are told apart in the order in which one device would
// add them up.
void GradientBuckets::Impl::hand_in() {
  const at::NoGradGuard no_grad;
  const auto add_to = [](Pending& parameter, const at::Tensor& sum) {
    auto& gradient = parameter.leaf.mutable_grad();
    if (parameter.kept.defined()) gradient = std::exchange(parameter.kept, at::Tensor());
    if (gradient.defined())
      gradient.add_(sum);
    else
      gradient = sum;
  };
  struct Came {
    size_t parameter;
    Bucket* bucket;
    size_t k;
    at::Tensor sum;
  };
  std::vector<Came> all;
  for (auto& bucket : on_their_way) bucket->gather();
  for (auto& bucket : on_their_way) {
    auto sums = bucket->finish();
    for (size_t k = 0; k < sums.size(); ++k)
      if (sums[k].defined()) all.push_back({bucket->which()[k], bucket.get(), k, std::move(sums[k])});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Came& a, const Came& b) { return a.parameter < b.parameter; });
  for (auto& came : all) {
    came.bucket->log(came.k, came.sum);
    add_to(parameters[came.parameter], came.sum);
  }
  drop();
  for (auto& parameter : parameters)  // whose gradient a hook of the user's has reduced
    if (const auto its = parameter.leaf.grad(); parameter.kept.defined() && its.defined())
      add_to(parameter, its);
}

GradientBuckets::GradientBuckets(nn::Module& module, const MeshInWorld& mesh,
                                 const std::vector<std::string>& paths, BucketOptions options)
    : impl_(std::make_shared<Impl>(comm_of(mesh), std::move(options))) {
  std::vector<std::string> known;
  const auto is_meant = [&](const std::vector<std::string>& places) {
    return std::find_first_of(places.begin(), places.end(), paths.begin(), paths.end()) != places.end();
  };
  for (const auto& [value, places] : module.parameters_with_paths()) {
    known.insert(known.end(), places.begin(), places.end());
    if (is_meant(places)) impl_->check(places.front(), value);
  }
  for (const auto& path : paths)
    LOCKSTEP_CHECK(std::find(known.begin(), known.end(), path) != known.end(),
                   "[buckets] there is no parameter '", path, "'", did_you_mean(path, known));
  module.replace_parameters([&](const std::vector<std::string>& places, const at::Tensor& value) {
    return is_meant(places) ? impl_->add(value) : value;
  });
  impl_->deal_out();
  impl_->watch(module);
}

void GradientBuckets::forget() {
  impl_->drop();
}

void GradientBuckets::set_requires_gradient_sync(bool on) {
  impl_->syncs = on;
}

}  // namespace lockstep
