// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/gradient_buckets.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "engine/plan/bucket.h"
#include "engine/tensor/gradients.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

std::vector<int64_t> dims_of(const DeviceMesh& mesh, const std::vector<std::string>& names) {
  LOCKSTEP_CHECK(!names.empty(), "[buckets] no mesh dimension; name those along which gradients pend");
  std::vector<int64_t> dims;
  for (const auto& name : names) dims.push_back(mesh.dim_index(name));
  std::sort(dims.begin(), dims.end());
  LOCKSTEP_CHECK(std::adjacent_find(dims.begin(), dims.end()) == dims.end(),
                 "[buckets] a mesh dimension is named twice");
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

}  // namespace

// A parameter, and what of its gradient is not in it: while terms come, what had been added up before.
struct Pending {
  at::Tensor leaf, kept;
  Placements terms;  // of its gradient
  size_t bucket = 0;
  bool is_there = false;  // in this pass
};

struct GradientBuckets::Impl : std::enable_shared_from_this<Impl> {
  Impl(const MeshInWorld& mesh, BucketOptions asked)
      : options(std::move(asked)), dims(dims_of(mesh.mesh, options.mesh_dims)), comm(mesh.comm) {}

  at::Tensor add(const at::Tensor& parameter, const std::string& path);
  void deal_out();
  at::Tensor come(size_t i, const at::Tensor& gradient);
  void added(size_t i);
  void begin(size_t bucket);
  void finish_pass();
  void hand_in();

  const BucketOptions options;
  const std::vector<int64_t> dims;
  const CommPtr comm;
  std::vector<Pending> parameters;
  std::vector<std::vector<size_t>> buckets;  // in the order in which they are to go
  std::vector<std::unique_ptr<Bucket>> on_their_way;
  bool syncs = true;
  std::vector<int> passes;  // graph tasks, one within the other
};

at::Tensor GradientBuckets::Impl::add(const at::Tensor& parameter, const std::string& path) {
  const auto& its = require_dtensor(parameter, "buckets");
  Pending pending;
  pending.terms = dual(its.spec()->placements());
  for (const auto d : dims) {
    LOCKSTEP_CHECK(is_replicate(pending.terms[as_size(d)]), "[buckets] the parameter '", path, "' is ",
                   *its.spec(), ", cut along '", comm->mesh.names()[as_size(d)],
                   "'; only what is replicated there has terms on each rank");
    pending.terms[as_size(d)] = Partial{};
  }
  pending.leaf = parameter.detach().requires_grad_(parameter.requires_grad());
  if (!parameter.requires_grad()) return pending.leaf;
  const size_t i = parameters.size();
  pending.leaf.register_hook([self = weak_from_this(), i](const at::Tensor& gradient) {
    const auto impl = self.lock();
    return impl == nullptr || !gradient.defined() ? gradient : impl->come(i, gradient);
  });
  torch::autograd::impl::set_post_acc_grad_hooks(pending.leaf,
                                                 std::make_unique<WhenAdded>([self = weak_from_this(), i] {
                                                   if (const auto impl = self.lock()) impl->added(i);
                                                 }));
  parameters.push_back(std::move(pending));
  return parameters.back().leaf;
}

// From the last parameter on, by dtype.
void GradientBuckets::Impl::deal_out() {
  int64_t bytes = 0;
  for (size_t i = parameters.size(); i-- > 0;) {
    const auto& leaf = parameters[i].leaf;
    const auto size = leaf.numel() * static_cast<int64_t>(leaf.element_size());
    const bool fits = !buckets.empty() && bytes + size <= options.bucket_bytes &&
                      parameters[buckets.back().front()].leaf.scalar_type() == leaf.scalar_type();
    if (!fits) buckets.emplace_back();
    bytes = (fits ? bytes : 0) + size;
    parameters[i].bucket = buckets.size() - 1;
    buckets.back().push_back(i);
  }
}

// Before it is added to the leaf.
at::Tensor GradientBuckets::Impl::come(size_t i, const at::Tensor& gradient) {
  const auto id = torch::autograd::get_current_graph_task_id();
  if (passes.empty() || passes.back() != id) {
    if (passes.empty()) {
      for (auto& parameter : parameters) parameter.is_there = false;
      on_their_way.clear();  // of a pass that failed
    }
    passes.push_back(id);
    torch::autograd::Engine::get_default_engine().queue_callback(
        [self = shared_from_this()] { self->finish_pass(); });
  }
  auto& parameter = parameters[i];
  auto& before = parameter.leaf.mutable_grad();
  if (before.defined() && placements(before) != parameter.terms)
    parameter.kept = std::exchange(before, at::Tensor());
  return for_leaf(settled(gradient, dtensor_impl(parameter.leaf)->spec(), comm, parameter.terms));
}

void GradientBuckets::Impl::added(size_t i) {
  parameters[i].is_there = true;
  const auto& bucket = buckets[parameters[i].bucket];
  const bool is_full =
      std::all_of(bucket.begin(), bucket.end(), [&](size_t k) { return parameters[k].is_there; });
  if (syncs && passes.size() == 1 && is_full) begin(parameters[i].bucket);
}

void GradientBuckets::Impl::begin(size_t bucket) {
  std::vector<size_t> which;
  std::vector<at::Tensor> terms;
  for (const auto i : buckets[bucket]) {
    auto& gradient = parameters[i].leaf.mutable_grad();
    if (!gradient.defined() || placements(gradient) != parameters[i].terms) continue;
    which.push_back(i);
    terms.push_back(std::exchange(gradient, at::Tensor()));
  }
  if (!which.empty())
    on_their_way.push_back(std::make_unique<Bucket>(std::move(which), terms, dims, options.order));
}

// A pass within another leaves it to that one.
void GradientBuckets::Impl::finish_pass() {
  passes.pop_back();
  if (!passes.empty() || !syncs) return;
  for (size_t b = 0; b < buckets.size(); ++b) begin(b);
  hand_in();
}

void GradientBuckets::Impl::hand_in() {
  const at::NoGradGuard no_grad;
  for (auto& bucket : on_their_way) bucket->go_on();
  for (auto& bucket : on_their_way) {
    const auto sums = bucket->finish();
    for (size_t k = 0; k < sums.size(); ++k) {
      auto& [leaf, kept, terms, at, is_there] = parameters[bucket->which()[k]];
      if (kept.defined()) leaf.mutable_grad() = std::exchange(kept, at::Tensor());
      if (leaf.grad().defined())
        leaf.mutable_grad().add_(sums[k]);
      else
        leaf.mutable_grad() = sums[k];
    }
  }
  on_their_way.clear();
}

GradientBuckets::GradientBuckets(nn::Module& module, const MeshInWorld& mesh,
                                 const std::vector<std::string>& paths, BucketOptions options)
    : impl_(std::make_shared<Impl>(MeshInWorld{mesh.mesh, mesh.world, comm_of(mesh)}, std::move(options))) {
  const auto is_meant = [&](const std::vector<std::string>& places) {
    return std::find_first_of(places.begin(), places.end(), paths.begin(), paths.end()) != places.end();
  };
  module.replace_parameters([&](const std::vector<std::string>& places, const at::Tensor& value) {
    return is_meant(places) ? impl_->add(value, places.front()) : value;
  });
  impl_->deal_out();
}

void GradientBuckets::set_requires_gradient_sync(bool on) {
  impl_->syncs = on;
}

}  // namespace lockstep
