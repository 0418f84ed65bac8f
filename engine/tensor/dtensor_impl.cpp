// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/dtensor_impl.h"

#include <ATen/ATen.h>

#include <typeinfo>

#include "engine/tensor/init.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "engine/world/share.h"
#include "engine/world/world.h"
#include "kernels/operators/operators.h"

namespace lockstep {
namespace {

// Autograd's of the device, but not its dense backend key: with that, set_data between plain and distributed
// tensors corrupts memory.
c10::DispatchKeySet keys_on(c10::DeviceType type) {
  using c10::DispatchKey;
  const auto autograd = type == c10::kCUDA   ? DispatchKey::AutogradCUDA
                        : type == c10::kMeta ? DispatchKey::AutogradMeta
                                             : DispatchKey::AutogradCPU;
  return c10::DispatchKeySet({DispatchKey::Fake, autograd, DispatchKey::ADInplaceOrView});
}

[[maybe_unused]] const bool kRegistered = (define_operators(), register_dispatch(), register_composites(),
                                           register_collectives(), register_gradients(), true);

const std::optional<std::string> kNoStorage =
    "a DTensor has no storage of its own: take full_tensor() to save it, print it or read its memory, or "
    "to_local() "
    "for this process's part";

}  // namespace

DTensorImpl::DTensorImpl(SpecPtr spec, CommPtr comm, PerRank<at::Tensor> locals)
    : TensorImpl(keys_on(spec->mesh().device_type()), c10::scalarTypeToTypeMeta(spec->dtype()),
                 comm->world->device()),
      spec_(std::move(spec)),
      comm_(std::move(comm)),
      locals_(std::move(locals)) {
  release_storage_and_set_meta_custom_data_ptr_error_msg_(kNoStorage);
  set_custom_sizes_strides(SizesStridesPolicy::CustomStrides);
  refresh();
}

DTensorImpl::DTensorImpl(SpecPtr spec, CommPtr comm, std::shared_ptr<Arriving> arriving)
    : DTensorImpl(std::move(spec), std::move(comm), PerRank<at::Tensor>()) {
  arriving_ = std::move(arriving);
}

void DTensorImpl::refresh() {
  sizes_and_strides_.set_sizes(spec_->shape());
  sizes_and_strides_.set_strides(spec_->stride());
  refresh_numel();
  refresh_contiguous();
}

void DTensorImpl::arrive() const {
  locals_ = arriving_->locals();
  arriving_ = nullptr;
}

void DTensorImpl::reset(SpecPtr spec, PerRank<at::Tensor> locals) {
  arriving_ = nullptr;
  spec_ = std::move(spec);
  locals_ = std::move(locals);
  data_type_ = c10::scalarTypeToTypeMeta(spec_->dtype());
  refresh();
}

void DTensorImpl::become_view(const DTensorImpl& base, int64_t offset) {
  key_set_ = base.key_set_;
  zeros_at = base.zeros_at;
  set_storage_offset(offset);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                         bool allow_change) const {
  return shallow_copy_and_detach(c10::VariableVersion(version), allow_change);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                         bool allow_change) const {
  auto copy = c10::make_intrusive<DTensorImpl>(spec_, comm_, locals_);
  copy->arriving_ = arriving_;
  copy->key_set_ = key_set_;
  copy->zeros_at = zeros_at;
  // What was made in InferenceMode counts no versions.
  if (!copy->is_inference()) copy->set_version_counter(std::move(version));
  copy->set_storage_offset(storage_offset());
  copy->set_allow_tensor_metadata_change(allow_change);
  return copy;
}

void DTensorImpl::check_memory(std::string_view who) const {
  if (arriving_ != nullptr) return;
  for (const auto& local : locals_)
    LOCKSTEP_CHECK(
        local.numel() == 0 || !local.has_storage() || local.storage().nbytes() > 0, "[", who, "] ",
        to_string(*spec_),
        " has no memory any more: it is a parameter as a module gathered it, or a view of one, and "
        "the call that it was gathered for has ended; read it within the call, or between unshard() "
        "and reshard()");
}

void DTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) {
  const auto* source = dynamic_cast<const DTensorImpl*>(other.get());
  if (source == nullptr)
    throw Refused(Refusal::kPlain, "set_data", to_string(*spec_),
                  "a DTensor cannot take the data of a plain tensor; ",
                  "use distribute_tensor and replace the parameter");
  TensorImpl::shallow_copy_from(other);
  spec_ = source->spec_;
  comm_ = source->comm_;
  zeros_at = source->zeros_at;
  locals_ = source->locals_;
  arriving_ = source->arriving_;
}

DTensorImpl* dtensor_impl(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(c10::DispatchKey::Fake)) return nullptr;
  auto* impl = tensor.unsafeGetTensorImpl();
  return typeid(*impl) == typeid(DTensorImpl) ? static_cast<DTensorImpl*>(impl) : nullptr;
}

DTensorImpl& require_dtensor(const at::Tensor& tensor, const char* who) {
  auto* impl = dtensor_impl(tensor);
  LOCKSTEP_CHECK(impl != nullptr, "[", who, "] needs a DTensor, and got a plain ",
                 tensor.defined() ? concat(tensor.scalar_type(), " tensor of shape ", tensor.sizes())
                                  : "undefined tensor",
                 "; make one with distribute_tensor or from_local");
  return *impl;
}

at::Tensor make_dtensor(SpecPtr spec, CommPtr comm, PerRank<at::Tensor> locals) {
  return at::detail::make_tensor<DTensorImpl>(std::move(spec), std::move(comm), std::move(locals));
}

at::Tensor make_dtensor(SpecPtr spec, CommPtr comm, std::shared_ptr<Arriving> arriving) {
  return at::detail::make_tensor<DTensorImpl>(std::move(spec), std::move(comm), std::move(arriving));
}

CommPtr comm_of(const MeshInWorld& mesh) {
  if (mesh.comm != nullptr) return mesh.comm;
  return std::make_shared<const Comm>(mesh.mesh, mesh.world);
}

at::Tensor replicated(const at::Tensor& tensor, const CommPtr& comm) {
  const PlainGuard guard;
  const auto spec = std::make_shared<const Spec>(
      comm->mesh, Placements(static_cast<size_t>(comm->mesh.ndim()), Replicate{}), tensor.sizes().vec(),
      tensor.strides().vec(), tensor.scalar_type());
  return make_dtensor(spec, comm, shared_copies(tensor, comm->positions.size()));
}

}  // namespace lockstep
