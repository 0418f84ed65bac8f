// SPDX-License-Identifier: Apache-2.0
// DTensorImpl: a TensorImpl without storage, with global sizes and strides, behind DispatchKey::Fake. It sits
// below autograd, so that libtorch records, saves, views and accumulates it as any tensor (decision 0001).
#pragma once
#include <c10/core/TensorImpl.h>

#include "engine/tensor/arriving.h"
#include "engine/tensor/dtensor.h"
#include "engine/world/comm.h"

namespace lockstep {

class DTensorImpl final : public c10::TensorImpl {
 public:
  DTensorImpl(SpecPtr spec, CommPtr comm, PerRank<at::Tensor> locals);
  DTensorImpl(SpecPtr spec, CommPtr comm, std::shared_ptr<Arriving> arriving);

  const SpecPtr& spec() const { return spec_; }
  const CommPtr& comm() const { return comm_; }
  // Waits for those that are on their way.
  const PerRank<at::Tensor>& locals() const {
    if (arriving_ != nullptr) arrive();
    return locals_;
  }
  // Throws Error naming `who` where the elements have no memory any more: a parameter as fully_shard gathered
  // it, which is cut again.
  void check_memory(std::string_view who) const;
  // Whether this leaf already sees to it that its gradient is a DTensor (engine/tensor/gradients.h).
  bool keeps_gradient = false;
  // The version at which libtorch knows it to be zero (engine/tensor/zeros.h).
  std::optional<uint32_t> zeros_at;
  // After an op that changed metadata in place (out variants that resize, t_, squeeze_, …).
  void reset(SpecPtr spec, PerRank<at::Tensor> locals);
  // A view is ordinary, or of InferenceMode, as its base is; autograd reads offsets to write gradients
  // through views.
  void become_view(const DTensorImpl& base, int64_t offset);

  c10::IntArrayRef strides_custom() const override { return strides_default(); }
  c10::SymIntArrayRef sym_strides_custom() const override { return sym_strides_default(); }
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override {
    return is_contiguous_default(format);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override;
  const char* tensorimpl_type_name() const override { return "DTensorImpl"; }

 private:
  void refresh();
  void arrive() const;

  SpecPtr spec_;
  CommPtr comm_;
  mutable PerRank<at::Tensor> locals_;
  mutable std::shared_ptr<Arriving> arriving_;  // shared with shallow copies; null: the locals are here
};

// Null if the tensor is not a DTensor.
DTensorImpl* dtensor_impl(const at::Tensor& tensor);
// Throws Error naming `who` if it is not one.
DTensorImpl& require_dtensor(const at::Tensor& tensor, const char* who);

at::Tensor make_dtensor(SpecPtr spec, CommPtr comm, PerRank<at::Tensor> locals);
at::Tensor make_dtensor(SpecPtr spec, CommPtr comm, std::shared_ptr<Arriving> arriving);

// That of the mesh; one made for it where it has none.
CommPtr comm_of(const MeshInWorld& mesh);

// A plain tensor on every rank: each has a copy of its own.
at::Tensor replicated(const at::Tensor& tensor, const CommPtr& comm);

}  // namespace lockstep
