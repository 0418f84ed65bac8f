// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/infer.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep {
namespace {

using torch::jit::Stack;

at::Tensor zeros_of(const at::Tensor& meta) {
  if (!meta.defined() || !meta.is_meta()) return meta;
  return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(at::kCPU)).zero_();
}

// Whether a meta kernel may refuse what the kernel takes: a number of the host's, an index of nothing.
bool may_mistake(const Stack& args) {
  return std::any_of(args.begin(), args.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           (value.toTensor().is_cpu() || value.toTensor().numel() == 0);
  });
}

void run_on_zeros(const c10::OperatorHandle& op, Stack& args) {
  for (auto& value : args) {
    if (value.isTensor()) value = zeros_of(value.toTensor());
    if (value.isDevice()) value = c10::Device(at::kCPU);
    if (!value.isTensorList()) continue;
    auto list = value.toTensorVector();
    for (auto& t : list) t = zeros_of(t);
    value = std::move(list);
  }
  op.callBoxed(args);
}

// Kernels that no meta kernel describes run on zeros, once for each decision.
void run_on_meta_or_zeros(const c10::OperatorHandle& op, Stack& args) {
  Stack zeros = args;
  try {
    return op.callBoxed(args);
  } catch (const c10::NotImplementedError&) {
    run_on_zeros(op, zeros);
  } catch (const c10::Error& refused) {
    if (!may_mistake(zeros)) throw;
    try {
      run_on_zeros(op, zeros);
    } catch (const c10::Error&) {
      throw refused;
    }
  }
  args = std::move(zeros);
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
  if (!tensor.defined()) return {};
  return {.defined = true,
          .shape = tensor.sizes().vec(),
          .stride = tensor.strides().vec(),
          .dtype = tensor.scalar_type(),
          .offset = tensor.storage_offset()};
}

std::vector<TensorMeta> infer_outputs(const c10::OperatorHandle& op, c10::DeviceType device, Infer infer,
                                      Stack args) {
  std::vector<TensorMeta> outputs;
  if (infer != nullptr)
    if (const auto results = infer(Arguments(op.schema(), args, device))) {
      for (const auto& t : *results) outputs.push_back(meta_of(t));
      return outputs;
    }
  run_on_meta_or_zeros(op, args);
  for (const auto& value : args) flatten(value, outputs);
  return outputs;
}

}  // namespace lockstep
