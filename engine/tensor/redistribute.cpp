// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/redistribute.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/context/asking.h"
#include "engine/move/execute.h"
#include "engine/tensor/cache.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/timeline_log.h"
#include "engine/tensor/zeros.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

SpecPtr placed(const Spec& spec, const DeviceMesh& mesh, const Placements& placements,
               const std::vector<int64_t>& order) {
  return std::make_shared<const Spec>(
      mesh == spec.mesh() && mesh.names() == spec.mesh().names()
          ? spec.with_placements(placements, order)
          : Spec(mesh, placements, spec.shape(), spec.stride(), spec.dtype(), order));
}

constexpr const char* kName = "lockstep::redistribute";

bool repeats(const Spec& spec) {
  for (size_t d = 0; d < spec.shape().size(); ++d)
    if (spec.shape()[d] > 1 && spec.stride()[d] == 0) return true;
  return false;
}

// The new tensor is dense, so its strides are those of a dense copy.
SpecPtr dense(const SpecPtr& spec) {
  auto stride = dense_stride(*spec, spec->shape());
  if (stride == spec->stride()) return spec;
  return std::make_shared<const Spec>(spec->with_tensor(spec->shape(), std::move(stride), spec->dtype()));
}

LogResult log(const DTensorImpl& from, const SpecPtr& to, const Route& by, bool implicit) {
  return log_redistribution(
      from, to, [&] { return by.order(from.comm()->world->library() != nullptr); }, implicit);
}

// Logs a redistribution and wraps its result.
at::Tensor moved(const DTensorImpl& from, SpecPtr to, const CommPtr& after, PerRank<at::Tensor> locals,
                 const Route& by, bool implicit) {
  log(from, to, by, implicit)(locals);
  return make_dtensor(std::move(to), after, std::move(locals));
}

// For a redistribution to where the tensor is: still a new tensor.
PerRank<at::Tensor> copies(const DTensorImpl& impl) {
  PerRank<at::Tensor> locals;
  for (const auto& local : impl.locals()) locals.push_back(local.clone());
  return locals;
}

at::Tensor copy_in_place(const DTensorImpl& impl, const Route& nowhere, const CommPtr& after) {
  const auto to = dense(nowhere.to);
  auto locals = copies(impl);
  conform_all(locals, *to);
  return moved(impl, to, after, std::move(locals), nowhere, false);
}

// The timeline has it where it began, as the Program does. Who asks, and whether in InferenceMode, is as it
// was then.
at::Tensor begin_route(const DTensorImpl& from, const Route& by, const CommPtr& after) {
  const Active active([&](auto&) { return activity_of({&by}, false); });
  const auto to = dense(by.to);
  const auto& comm = from.comm();
  const auto moving =
      std::make_shared<Moving>(begin(by, by.steps.empty() ? copies(from) : from.locals(), *comm, *after));
  const bool inference = c10::InferenceMode::is_enabled();
  auto take = [moving, to, comm, after, inference, logged = log(from, to, by, false)] {
    const c10::InferenceMode as_begun(inference);
    const PlainGuard guard;
    const Asking asks(kName);
    moving->work.wait();
    auto locals = std::move(*moving->locals);
    conform_all(locals, *to);
    logged(locals);
    return locals;
  };
  const auto mesh = to->mesh() == by.from->mesh() ? "" : concat(" on mesh ", to->mesh());
  const auto what = concat("[redistribute] ", *by.from, " -> ", to_string(to->placements()), mesh);
  return make_dtensor(to, after, std::make_shared<Arriving>(what, comm, from.locals(), std::move(take)));
}

// Of a route with steps. @param to where it ends, with the strides that the result says it has
at::Tensor run_to(const SpecPtr& to, const at::Tensor& tensor, const Route& r, bool implicit,
                  const CommPtr& after) {
  const auto& impl = require_dtensor(tensor, "redistribute");
  const Active active([&](auto&) { return activity_of({&r}, implicit); });
  const PlainGuard guard;
  // In a world of one it is there already, and an op reads it as it lies: stock kernels round by strides.
  const bool stays = impl.comm()->mesh.ranks() == after->mesh.ranks();
  if (implicit && stays && after->mesh.size() == 1 && is_flat(*r.from) == is_flat(*r.to))
    return moved(impl, r.to, after, impl.locals(), r, implicit);
  auto locals = execute(r, impl.locals(), *impl.comm(), *after);
  conform_all(locals, *to);
  return moved(impl, to, after, std::move(locals), r, implicit);
}

enum class How {
  kAsked,     // waits, and gives a new tensor
  kInserted,  // by the engine, of a gradient: it may be its input as it lies
  kBegun,     // does not wait
};

// What repeats an element says so where it goes, too, though its locals do not: what a gradient is added to
// lies as the two together on one device.
SpecPtr end_of(const Route& plan, How how) {
  return how == How::kInserted && repeats(*plan.to) ? plan.to : dense(plan.to);
}

// By a route that may be empty.
at::Tensor moved_by(const Route& plan, const at::Tensor& input, const CommPtr& after, How how) {
  const auto& impl = require_dtensor(input, "redistribute");
  if (how == How::kBegun) return begin_route(impl, plan, after);
  if (!plan.steps.empty()) return run_to(end_of(plan, how), input, plan, how == How::kInserted, after);
  // The engine asks so where but the names of the mesh are others.
  if (how == How::kInserted) return make_dtensor(plan.to, after, impl.locals());
  return copy_in_place(impl, plan, after);
}

using Plans = std::vector<std::shared_ptr<const Route>>;

// Each as moved_by gives it; those that move do so together.
variable_list moved_together(const Plans& plans, at::TensorList inputs, const CommPtr& comm, How how) {
  const auto moves = [&](size_t i) { return !plans[i]->steps.empty() && comm->mesh.size() > 1; };
  std::vector<const Route*> routes;
  std::vector<PerRank<at::Tensor>> locals;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!moves(i)) continue;
    routes.push_back(plans[i].get());
    locals.push_back(dtensor_impl(inputs[i])->locals());
  }
  std::optional<Active> active;
  if (!routes.empty()) active.emplace([&](auto&) { return activity_of(routes, how == How::kInserted); });
  auto arrived = execute_together(routes, std::move(locals), *comm);
  active.reset();
  variable_list result;
  for (size_t i = 0, next = 0; i < plans.size(); ++i) {
    if (!moves(i)) {
      result.push_back(moved_by(*plans[i], inputs[i], comm, how));
      continue;
    }
    const auto to = end_of(*plans[i], how);
    conform_all(arrived[next], *to);
    result.push_back(moved(*dtensor_impl(inputs[i]), to, comm, std::move(arrived[next++]), *plans[i],
                           how == How::kInserted));
  }
  return result;
}

// Backward is the route of the duals: from the gradient's placement to the dual of the input's.
struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const CommPtr& after,
                            const Placements& placements, const std::vector<int64_t>& order, How how) {
    ctx->set_materialize_grads(false);
    const auto& impl = require_dtensor(input, "redistribute");
    LOCKSTEP_CHECK(after->world == impl.comm()->world, "[redistribute] a tensor on mesh ", impl.comm()->mesh,
                   " cannot go to mesh ", after->mesh,
                   " of another world; give init_device_mesh the first one's world");
    if (input.requires_grad()) ctx->saved_data["from"] = hold(impl.spec(), impl.comm());
    const PlainGuard guard;
    const Asking asks(kName);
    auto& context = *impl.comm()->context;
    const ContextUse use(context);
    const auto plan = known_route(context, impl.spec(), placed(*impl.spec(), after->mesh, placements, order));
    return moved_by(*plan, input, after, how);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto from = held_in(ctx->saved_data["from"]);
    const auto grad = grads[0].defined() ? settled(grads[0], from->spec, from->comm) : at::Tensor();
    return {grad, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The same of a list, on one mesh.
struct RedistributeList : torch::autograd::Function<RedistributeList> {
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const CommPtr& comm,
                               const std::vector<SpecPtr>& targets, How how) {
    ctx->set_materialize_grads(false);
    const PlainGuard guard;
    const Asking asks(kName);
    const ContextUse use(*comm->context);
    Plans plans;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& impl = require_dtensor(inputs[i], "redistribute");
      if (inputs[i].requires_grad()) ctx->saved_data[std::to_string(i)] = hold(impl.spec(), impl.comm());
      plans.push_back(known_route(*comm->context, impl.spec(), targets[i]));
    }
    auto result = moved_together(plans, inputs, comm, how);
    variable_list constants;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].requires_grad()) constants.push_back(result[i]);
    ctx->mark_non_differentiable(constants);
    return result;
  }
  // Gradients that have to move, on the mesh where the tensors were, do so together.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(grads.size() + 3), moving;
    std::vector<SpecPtr> targets;
    std::vector<size_t> places;
    CommPtr comm;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      const auto from = held_in(ctx->saved_data[std::to_string(i)]);
      auto [placed, target] = to_settle(grads[i], from->spec, from->comm, dual(from->spec->placements()));
      if (target == nullptr || dtensor_impl(placed)->spec()->mesh() != target->mesh()) {
        result[i] = settled(grads[i], from->spec, from->comm);
        continue;
      }
      comm = from->comm;
      places.push_back(i);
      targets.push_back(std::move(target));
      moving.push_back(std::move(placed));
    }
    if (places.empty()) return result;
    const auto moved = apply(at::TensorList(moving), comm, targets, How::kInserted);
    for (size_t k = 0; k < places.size(); ++k) {
      if (is_zeros(moving[k])) mark_zeros(moved[k]);
      result[places[k]] = moved[k];
    }
    return result;
  }
};

}  // namespace

LogResult log_redistribution(const DTensorImpl& from, const SpecPtr& to,
                             const std::function<ReductionOrder()>& order, bool implicit) {
  auto* timeline = from.comm()->context->timeline;
  if (timeline == nullptr) return [](const auto&) {};
  TimelineEntry entry;
  entry.op = kName;
  entry.implicit = implicit;
  entry.args = {c10::IValue()};
  entry.tensors_per_arg = {1};
  entry.inputs = {record(from.spec(), from.locals())};
  entry.aliases = {-1};
  entry.order = order();
  timeline->push_back(std::move(entry));
  return [timeline, place = timeline->size() - 1, to, context = from.comm()->context](const auto& locals) {
    if (context->timeline == timeline && place < timeline->size())
      (*timeline)[place].outputs = {record(to, locals)};
  };
}

at::Tensor run_route(const at::Tensor& tensor, const Route& r, bool implicit, const CommPtr& after) {
  return r.steps.empty() ? tensor : run_to(dense(r.to), tensor, r, implicit, after);
}

at::Tensor move_to(const at::Tensor& tensor, const Placements& placements, const std::vector<int64_t>& order,
                   bool implicit) {
  const auto& impl = require_dtensor(tensor, "redistribute");
  const auto to = placed(*impl.spec(), impl.spec()->mesh(), placements, order);
  return run_route(tensor, *known_route(*impl.comm()->context, impl.spec(), to), implicit, impl.comm());
}

at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements,
                        const std::vector<int64_t>& order, bool async_op) {
  const auto& impl = require_dtensor(tensor, "redistribute");
  impl.check_memory("redistribute");
  note_read(tensor);
  return Redistribute::apply(tensor, impl.comm(), placements, order, async_op ? How::kBegun : How::kAsked);
}

std::vector<at::Tensor> redistribute(const std::vector<at::Tensor>& tensors,
                                     const std::vector<Placements>& placements,
                                     const std::vector<std::vector<int64_t>>& orders) {
  if (tensors.empty()) return {};
  const auto of = [&](const auto& each, size_t i) { return each.size() == 1 ? each.front() : each.at(i); };
  LOCKSTEP_CHECK((placements.size() == tensors.size() || placements.size() == 1) &&
                     (orders.empty() || orders.size() == placements.size()),
                 "[redistribute] ", placements.size(), " placements and ", orders.size(), " orders for ",
                 tensors.size(), " tensors; give one for each tensor, or one for all of them");
  const auto& comm = require_dtensor(tensors.front(), "redistribute").comm();
  std::vector<SpecPtr> targets;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& impl = require_dtensor(tensors[i], "redistribute");
    const auto& mesh = impl.comm()->mesh;
    LOCKSTEP_CHECK(mesh == comm->mesh && mesh.names() == comm->mesh.names() &&
                       impl.comm()->world == comm->world && impl.comm()->context == comm->context,
                   "[redistribute] tensors of two meshes in one list, ", comm->mesh, " and ", mesh,
                   mesh == comm->mesh ? " by itself" : "",
                   "; redistribute those of each in a list of theirs");
    impl.check_memory("redistribute");
    targets.push_back(placed(*impl.spec(), mesh, of(placements, i),
                             orders.empty() ? std::vector<int64_t>() : of(orders, i)));
  }
  for (const auto& tensor : tensors) note_read(tensor);
  return RedistributeList::apply(at::TensorList(tensors), comm, targets, How::kAsked);
}

at::Tensor redistribute(const at::Tensor& tensor, const MeshInWorld& mesh, const Placements& placements,
                        const std::vector<int64_t>& order, bool async_op) {
  require_dtensor(tensor, "redistribute").check_memory("redistribute");
  note_read(tensor);
  return Redistribute::apply(tensor, comm_of(mesh), placements, order, async_op ? How::kBegun : How::kAsked);
}

at::Tensor redistribute_along(const at::Tensor& tensor, const Along& along, bool async_op) {
  const auto now = placements(tensor);
  auto target = now;
  int64_t sums = 0;
  for (const auto& [d, placement] : along) {
    target[d] = placement;
    sums += is_partial(now[d]) && placement != now[d];
  }
  if (target == now) return tensor;
  if (sums <= 1) return redistribute(tensor, target, {}, async_op);
  auto each = tensor;
  for (const auto& [d, placement] : along) {
    auto next = placements(each);
    next[d] = placement;
    if (next != placements(each)) each = redistribute(each, next, {}, async_op);
  }
  return each;
}

at::Tensor wait_tensor(const at::Tensor& tensor) {
  require_dtensor(tensor, "wait_tensor").locals();
  return tensor;
}

at::Tensor inserted_redistribute(const at::Tensor& tensor, const Spec& target, const CommPtr& comm) {
  return Redistribute::apply(tensor, comm, target.placements(), target.order(), How::kInserted);
}

}  // namespace lockstep
