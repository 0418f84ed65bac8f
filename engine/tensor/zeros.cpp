// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/zeros.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// They lie as the first of the two that has their shape and does not pend, and is zeros already.
at::Tensor zeros_of(const at::Tensor& a, const at::Tensor& b, const CommPtr& comm) {
  const auto shape = at::infer_size(a.sizes(), b.sizes());
  const auto dtype = at::result_type(a, b);
  const auto leads = [&](const at::Tensor& t) {
    return is_zeros(t) && t.sizes() == shape && !spec(t).has_partial();
  };
  const auto* lead = leads(a) ? &a : leads(b) ? &b : nullptr;
  const auto zeros = [&] {
    const PlainGuard guard;
    const auto options = at::TensorOptions(dtype).device(comm->world->device());
    if (lead == nullptr) return replicated(at::zeros(shape, options), comm);
    const auto& impl = *dtensor_impl(*lead);
    PerRank<at::Tensor> locals;
    for (const auto& local : impl.locals()) locals.push_back(at::zeros(local.sizes(), options));
    auto strides = contiguous_strides(impl.spec()->shape());
    auto lies = impl.spec()->with_tensor(impl.spec()->shape(), std::move(strides), dtype);
    return make_dtensor(std::make_shared<const Spec>(std::move(lies)), comm, std::move(locals));
  }();
  mark_zeros(zeros);
  return zeros;
}

// libtorch adds a gradient up in place, as an ordinary op does, where it makes no graph and nobody else holds
// it. It is held by the sum, the stack and the call; what a pass began with, also by who began it.
bool is_added_in_place(const at::Tensor& gradient) {
  constexpr size_t kHere = 3;
  return in_backward_pass() && !at::GradMode::is_enabled() && gradient.use_count() <= kHere;
}

// The other, where the op gives one of its shape and dtype.
std::optional<at::Tensor> copy_of(const at::Tensor& other, const at::Tensor& zeros, double factor) {
  if (factor != 1 || other.sizes() != at::infer_size(other.sizes(), zeros.sizes()) ||
      other.scalar_type() != at::result_type(other, zeros))
    return std::nullopt;
  return other.clone();
}

at::Tensor spread(const at::Tensor& zeros) {
  const PlainGuard guard;
  const auto& impl = *dtensor_impl(zeros);
  const auto& lies = *impl.spec();
  PerRank<at::Tensor> locals;
  for (const auto& local : impl.locals())
    locals.push_back(at::zeros({}, local.options()).expand(local.sizes()));
  auto spec = lies.with_tensor(lies.shape(), std::vector<int64_t>(lies.shape().size(), 0), lies.dtype());
  return make_dtensor(std::make_shared<const Spec>(std::move(spec)), impl.comm(), std::move(locals));
}

}  // namespace

bool is_zeros(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  return impl != nullptr && impl->zeros_at.has_value() && impl->version_counter().enabled() &&
         impl->zeros_at == impl->version_counter().current_version();
}

void mark_zeros(const at::Tensor& tensor) {
  auto& impl = require_dtensor(tensor, "zeros");
  if (impl.version_counter().enabled()) impl.zeros_at = impl.version_counter().current_version();
}

std::optional<at::Tensor> of_zeros(const Resolved& resolved, const ParsedCall& call,
                                   at::ArrayRef<c10::IValue> args) {
  const at::Tensor &a = call.tensors[0], &b = call.tensors.back();
  const bool first = is_zeros(a), second = is_zeros(b);
  if (resolved.zeros == Zeros::kTimes && (first || second)) return zeros_of(a, b, call.comm);
  if (resolved.zeros == Zeros::kDivides && first && !second) return zeros_of(a, b, call.comm);
  if (resolved.zeros != Zeros::kAdds) return std::nullopt;
  if (first && second) return zeros_of(a, b, call.comm);
  const double alpha = args[2].toScalar().toDouble();
  if (first && is_dtensor(b)) return copy_of(b, a, alpha);
  if (second && is_dtensor(a) && !is_added_in_place(a)) return copy_of(a, b, 1);
  return std::nullopt;
}

bool reads_zeros(const Resolved& resolved, const ParsedCall& call) {
  return resolved.zeros != Zeros::kAsTheyLie &&
         std::any_of(call.tensors.begin(), call.tensors.end(), is_zeros);
}

torch::jit::Stack with_zeros_spread(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                                    const ParsedCall& call) {
  return with_tensors(resolved, args, [&](size_t i) {
    if (is_zeros(call.tensors[i])) return spread(call.tensors[i]);
    return call.zeros[i].defined() ? call.zeros[i] : call.tensors[i];
  });
}

}  // namespace lockstep
