// SPDX-License-Identifier: Apache-2.0
// What an op's results on global tensors look like: shape, stride and dtype, without computing them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "engine/ops/rules/record.h"

namespace lockstep {

// @param device where the op runs. @param infer the record's, or null. @param args the op's arguments with
// global tensors replaced by meta tensors. @post one entry for each result, lists flattened; undefined ones
// included. Throws what the op throws on a bad call (shapes that do not match).
std::vector<TensorMeta> infer_outputs(const c10::OperatorHandle& op, c10::DeviceType device, Infer infer,
                                      torch::jit::Stack args);

TensorMeta meta_of(const at::Tensor& tensor);

}  // namespace lockstep
