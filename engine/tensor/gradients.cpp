// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/gradients.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <typeinfo>

#include "engine/tensor/init.h"
#include "engine/tensor/operands.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/redistribute.h"
#include "engine/tensor/zeros.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

// On a tensor that is autograd's own, and was as it is now at this version; one for a tensor and its views,
// which have one version.
struct Own : c10::BackendMeta {
  explicit Own(int64_t v) : version(v) {}
  int64_t version;
};

bool is_ours(const c10::IValue& value) {
  return value.isTensor() && (is_dtensor(value.toTensor()) || made_by_autograd(value.toTensor()));
}

// What a hook computes of a plain gradient that autograd made has no mark of it: no operator passes by the
// engine between two nodes.
[[noreturn]] void refuse_plain(const at::Tensor& grad, const std::string& of) {
  if (current_context()->own_in == torch::autograd::get_current_graph_task_id())
    throw NotBuilt(
        concat("[backward] a plain tensor of shape ", grad.sizes(), " arrived as the gradient of a DTensor ",
               of, ", in a pass in which autograd makes zeros of its own, which are plain: a hook that is ",
               "given a plain gradient must return it as it is"));
  throw Refused(
      Refusal::kPlain, "backward", of,
      concat("a plain tensor of shape ", grad.sizes(), " arrived as the gradient of a DTensor ", of, "; "),
      "a hook must return a DTensor");
}

// Of this thread, whatever Context an op enters.
thread_local BackwardNode applied = BackwardNode::kNone;

// While a node of the graph is applied to a gradient of a DTensor, and then while libtorch adds what it made
// to the gradients of others, plain operators pass by the engine. libtorch puts a thread's keys back once a
// node's gradients are delivered, and so ends both.
struct Applied : at::ObserverContext {
  Applied(BackwardNode node, CommPtr gradients)
      : context_(current_context()),
        before_(std::exchange(context_->node, node)),
        gradients_(std::exchange(context_->gradients, std::move(gradients))),
        included_(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) {
    c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
    applied = node;
  }
  ~Applied() override {
    applied = BackwardNode::kDelivery;
    context_->node = in_backward_pass() ? BackwardNode::kDelivery : before_;
    context_->gradients = std::move(gradients_);
    if (!in_backward_pass()) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, included_);
  }
  Applied(const Applied&) = delete;
  Applied& operator=(const Applied&) = delete;

 private:
  ContextPtr context_;
  BackwardNode before_;
  CommPtr gradients_;
  bool included_;
};

bool is_users(const at::RecordFunction& node) {
  return std::string_view(node.name()).starts_with("torch::autograd::CppNode<");
}

// Above the engine libtorch raises the version of what was written in place, and gives a view its base's.
c10::intrusive_ptr<c10::BackendMeta> own_of(const c10::OperatorHandle& op, c10::ArrayRef<at::Tensor> given,
                                            const at::Tensor& result) {
  const auto& returns = op.schema().returns();
  const bool aliases = !given.empty() && !returns.empty() && returns[0].alias_info() != nullptr;
  auto own = aliases ? given[0].unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr() : nullptr;
  if (own == nullptr) own = c10::make_intrusive<Own>(result._version());
  if (op.schema().is_mutable()) ++static_cast<Own&>(*own).version;
  return own;
}

bool is_shared(const at::Tensor& local) {
  return local.use_count() > 1 || local.storage().use_count() > 1;
}

bool ends_in_dtensor() {
  const auto node = torch::autograd::get_current_node();
  const auto* end = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  return end != nullptr && is_dtensor(end->variable);
}

// Called by libtorch, which swallows what is thrown here.
std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction& node) {
  const auto inputs = node.inputs();
  if (std::none_of(inputs.begin(), inputs.end(), is_ours))
    return ends_in_dtensor() ? std::make_unique<Applied>(BackwardNode::kForeign, nullptr) : nullptr;
  const auto of = std::find_if(inputs.begin(), inputs.end(),
                               [](auto& value) { return value.isTensor() && is_dtensor(value.toTensor()); });
  return std::make_unique<Applied>(is_users(node) ? BackwardNode::kFunction : BackwardNode::kFormula,
                                   of == inputs.end() ? nullptr : dtensor_impl(of->toTensor())->comm());
}

}  // namespace

bool in_backward_pass() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool in_backward_formula() {
  if (applied != BackwardNode::kFormula) return false;
  const auto node = torch::autograd::get_current_node();
  const auto& type = *node;
  return c10::demangle(typeid(type).name()).starts_with("torch::autograd::generated::");
}

bool made_by_autograd(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return false;
  const auto* own = dynamic_cast<const Own*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return own != nullptr && own->version == tensor._version();
}

void mark_if_autograds(const c10::OperatorHandle& op, c10::ArrayRef<at::Tensor> given,
                       torch::jit::Stack& stack) {
  const auto node = current_context()->node;
  if (node == BackwardNode::kForeign && !given.empty()) refuse_plain(given[0], "");
  if (node == BackwardNode::kNone || op.hasTag(at::Tag::nondeterministic_seeded)) return;
  const bool from_nothing = std::none_of(given.begin(), given.end(), [](auto& t) { return t.defined(); });
  if (from_nothing && node == BackwardNode::kDelivery) return;
  if (from_nothing && node == BackwardNode::kFunction && op.schema().name() != "aten::zeros") return;
  if (!std::all_of(given.begin(), given.end(), [](auto& t) { return !t.defined() || made_by_autograd(t); }))
    return;
  const auto mark = [&](const at::Tensor& t) {
    if (!t.defined() || is_dtensor(t)) return;
    t.unsafeGetTensorImpl()->set_backend_meta(own_of(op, given, t));
    current_context()->own_in = torch::autograd::get_current_graph_task_id();
  };
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    if (stack[i].isTensor()) mark(stack[i].toTensor());
    if (stack[i].isTensorList())
      for (const at::Tensor& t : stack[i].toTensorList()) mark(t);
  }
}

// libtorch makes a gradient that nobody else holds a leaf's own, which the next one is added to in place. Who
// holds a DTensor says nothing of its locals: a gradient that has moved nowhere has those of the one before.
// Where a local lies is this rank's affair, and an op is one of all ranks: one with a history is copied
// anyhow.
at::Tensor for_leaf(const at::Tensor& grad) {
  const auto* impl = dtensor_impl(grad);
  if (impl == nullptr) return grad;
  at::Tensor own;
  if (grad.requires_grad()) {
    own = grad.clone();
  } else {
    if (std::none_of(impl->locals().begin(), impl->locals().end(), is_shared)) return grad;
    const PlainGuard guard;
    PerRank<at::Tensor> locals;
    for (const auto& local : impl->locals()) locals.push_back(local.clone());
    own = make_dtensor(impl->spec(), impl->comm(), std::move(locals));
  }
  if (is_zeros(grad)) mark_zeros(own);
  return own;
}

void require_dense(const at::Tensor& grad, const Spec& of, const char* who) {
  if (grad.layout() == at::kStrided) return;
  throw Refused(Refusal::kPlain, who, to_string(of),
                concat("a gradient of layout ", grad.layout(), " arrived for ", of,
                       ", and that of a DTensor is dense; "),
                "call gather with sparse_grad=false, and embedding with sparse=false");
}

at::Tensor settled(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm) {
  return settled(grad, of, comm, dual(of->placements()));
}

std::pair<at::Tensor, SpecPtr> to_settle(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm,
                                         const Placements& placements) {
  if (!is_dtensor(grad) && !made_by_autograd(grad)) refuse_plain(grad, to_string(*of));
  auto placed = is_dtensor(grad) ? grad : replicated(grad, comm);
  const auto& now = *dtensor_impl(placed)->spec();
  auto target = std::make_shared<const Spec>(of->mesh(), placements, now.shape(), now.stride(), now.dtype(),
                                             of->order());
  if (equal_and_named_alike(*target, now)) target = nullptr;
  return {std::move(placed), std::move(target)};
}

at::Tensor settled(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm,
                   const Placements& placements) {
  const auto [placed, target] = to_settle(grad, of, comm, placements);
  if (target == nullptr) return placed;
  auto moved = inserted_redistribute(placed, *target, comm);
  if (is_zeros(placed)) mark_zeros(moved);
  return moved;
}

void keep_leaf_gradients(at::ArrayRef<at::Tensor> tensors) {
  for (const at::Tensor& t : tensors) {
    if (!t.requires_grad()) continue;
    auto* impl = dtensor_impl(t);
    if (impl == nullptr || impl->keeps_gradient || !t.is_leaf()) continue;
    impl->keeps_gradient = true;
    t.register_hook([spec = impl->spec(), comm = impl->comm()](const at::Tensor& grad) {
      if (!grad.defined()) return at::Tensor();
      return for_leaf(is_dtensor(grad) ? grad : settled(grad, spec, comm));
    });
  }
}

c10::IValue hold(SpecPtr spec, CommPtr comm) {
  return at::IValue::make_capsule(c10::make_intrusive<Held>(std::move(spec), std::move(comm)));
}

c10::intrusive_ptr<Held> held_in(const c10::IValue& capsule) {
  return c10::static_intrusive_pointer_cast<Held>(capsule.toCapsule());
}

void register_gradients() {
  at::addGlobalCallback(
      at::RecordFunctionCallback(begin_node).scopes({at::RecordScope::BACKWARD_FUNCTION}).needsInputs(true));
}

}  // namespace lockstep
