// SPDX-License-Identifier: Apache-2.0
#include "engine/redistribute.h"

#include <torch/csrc/autograd/custom_function.h>

#include "engine/execute.h"
#include "engine/plain_guard.h"
#include "engine/timeline_log.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

thread_local int64_t g_bytes_moved = 0;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

SpecPtr placed(const Spec& spec, const Placements& placements, const std::vector<int64_t>& order) {
  return std::make_shared<const Spec>(spec.with_placements(placements, order));
}

// The new tensor is dense, so its strides are those of a dense copy.
SpecPtr dense(const SpecPtr& spec) {
  auto stride = local_stride(*spec, spec->shape());
  if (stride == spec->stride()) return spec;
  return std::make_shared<const Spec>(spec->with_tensor(spec->shape(), std::move(stride), spec->dtype()));
}

// Backward is the route of the duals: from the gradient's placement to the dual of the input's.
struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const Placements& placements,
                            const std::vector<int64_t>& order) {
    ctx->saved_data["from"] = at::IValue::make_capsule(hold(require_dtensor(input, "redistribute").spec()));
    at::AutoDispatchBelowADInplaceOrView guard;
    auto result = move_to(input, placements, order, false);
    return result.is_same(input) ? input.alias() : result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto spec = held(ctx->saved_data["from"]);
    if (!grads[0].defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    return {redistribute(grads[0], dual(spec->placements()), spec->order()), at::Tensor(), at::Tensor()};
  }
};

struct HeldSpec : torch::CustomClassHolder {
  explicit HeldSpec(SpecPtr s) : spec(std::move(s)) {}
  SpecPtr spec;
};

}  // namespace

c10::intrusive_ptr<torch::CustomClassHolder> hold(SpecPtr spec) {
  return c10::make_intrusive<HeldSpec>(std::move(spec));
}

SpecPtr held(const c10::IValue& capsule) { return static_cast<HeldSpec*>(capsule.toCapsule().get())->spec; }

at::Tensor run_route(const at::Tensor& tensor, const Route& r, bool implicit) {
  if (r.steps.empty()) return tensor;
  const auto& impl = require_dtensor(tensor, "redistribute");
  g_bytes_moved += r.bytes();
  const PlainGuard guard;
  const auto to = dense(r.to);
  auto locals = execute(r, impl.locals(), *impl.comm());
  for (auto& local : locals) local = conform(local, *to);
  if (auto* timeline = current_timeline()) {
    TimelineEntry entry;
    entry.op = "lockstep::redistribute";
    entry.implicit = implicit;
    entry.args = {c10::IValue()};
    entry.tensors_per_arg = {1};
    entry.inputs = {record(impl.spec(), impl.locals())};
    entry.outputs = {record(to, locals)};
    entry.aliases = {-1};
    entry.order = r.order();
    timeline->push_back(std::move(entry));
  }
  return make_dtensor(to, impl.comm(), std::move(locals));
}

at::Tensor move_to(const at::Tensor& tensor, const Placements& placements, const std::vector<int64_t>& order,
                   bool implicit) {
  const auto& from = require_dtensor(tensor, "redistribute").spec();
  return run_route(tensor, route(from, placed(*from, placements, order)), implicit);
}

int64_t bytes_moved() { return g_bytes_moved; }

at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements, const std::vector<int64_t>& order) {
  require_dtensor(tensor, "redistribute");
  return Redistribute::apply(tensor, placements, order);
}

}  // namespace lockstep
