// SPDX-License-Identifier: Apache-2.0
#include "engine/infer.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

at::Tensor like(const at::Tensor& t) { return at::empty_like(t); }
at::Tensor sized(const at::Tensor& t, at::IntArrayRef shape) { return at::empty(shape, t.options()); }

// Ops without a meta kernel in libtorch: their results, on meta tensors.
using Infer = void (*)(Stack&);
const std::unordered_map<std::string, Infer>& without_meta_kernel() {
  static const std::unordered_map<std::string, Infer> table = {
      {"aten::embedding_dense_backward",
       [](Stack& s) {
         const auto grad = s[0].toTensor();
         s = {sized(grad, {s[2].toInt(), grad.size(-1)})};
       }},
      {"aten::native_layer_norm",
       [](Stack& s) {
         const auto input = s[0].toTensor().contiguous();
         auto shape = input.sizes().vec();
         const auto n = s[1].toIntVector().size();
         for (size_t i = shape.size() - n; i < shape.size(); ++i) shape[i] = 1;
         s = {like(input), sized(input, shape), sized(input, shape)};
       }},
      {"aten::native_layer_norm_backward",
       [](Stack& s) {
         const auto input = s[1].toTensor();
         const auto mask = s[7].toBoolList();
         const auto weight = s[5].isNone() ? at::Tensor() : s[5].toTensor();
         const auto bias = s[6].isNone() ? at::Tensor() : s[6].toTensor();
         s = {mask[0] ? sized(input, input.sizes()) : at::Tensor(), mask[1] && weight.defined() ? like(weight) : at::Tensor(),
              mask[2] && bias.defined() ? like(bias) : at::Tensor()};
       }},
      {"aten::_fused_rms_norm",
       [](Stack& s) {
         const auto input = s[0].toTensor();
         auto shape = input.sizes().vec();
         const auto n = s[1].toIntVector().size();
         for (size_t i = shape.size() - n; i < shape.size(); ++i) shape[i] = 1;
         s = {sized(input, input.sizes()), sized(input, shape)};
       }},
      {"aten::native_dropout",
       [](Stack& s) {
         const auto input = s[0].toTensor();
         s = {like(input), at::empty_like(input, input.options().dtype(at::kBool))};
       }},
      {"aten::native_dropout_backward", [](Stack& s) { s = {like(s[0].toTensor())}; }},
  };
  return table;
}

void flatten(const c10::IValue& value, std::vector<TensorMeta>& out) {
  if (value.isTensor()) {
    out.push_back(meta_of(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const auto& t : value.toTensorVector()) out.push_back(meta_of(t));
  } else if (value.isNone()) {
    out.push_back({});
  }
}

}  // namespace

TensorMeta meta_of(const at::Tensor& tensor) {
  TensorMeta meta;
  if (!tensor.defined()) return meta;
  meta.defined = true;
  meta.shape = tensor.sizes().vec();
  meta.stride = tensor.strides().vec();
  meta.dtype = tensor.scalar_type();
  return meta;
}

std::vector<TensorMeta> infer_outputs(const c10::OperatorHandle& op, Stack args) {
  const auto& table = without_meta_kernel();
  if (const auto it = table.find(op.schema().name()); it != table.end())
    it->second(args);
  else
    op.callBoxed(args);
  std::vector<TensorMeta> outputs;
  for (const auto& value : args) flatten(value, outputs);
  return outputs;
}

}  // namespace lockstep
