// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/op_inputs.h"

#include <algorithm>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/redistribute.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

at::Tensor moved_by(const OpInput& row, const at::Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.defined() && is_dtensor(tensor), "[plan] ", row.what,
                 ": that input is no DTensor; leave the row out, or pass distribute_tensor(…)");
  auto along = row.along;
  for (auto& [d, placement] : along) {
    const auto dim = is_shard(placement) ? shard_dim(placement) : 0;
    LOCKSTEP_CHECK(!is_shard(placement) || (dim < tensor.dim() && dim >= -tensor.dim()), "[plan] ", row.what,
                   ": a tensor of shape ", tensor.sizes(), "; name a dimension that it has");
    if (is_shard(placement) && dim < 0) placement = with_dim(placement, dim + tensor.dim());
  }
  return redistribute_along(tensor, along);
}

}  // namespace

PerOperand<at::Tensor> OpInputs::moved(const c10::OperatorHandle& op, const ParsedCall& call) {
  const auto& name = op.operator_name().name;
  const auto is_it = [&](const OpInput& row) { return row.op == name; };
  if (std::none_of(inputs_.begin(), inputs_.end(), is_it)) return {};
  auto counted = std::find_if(calls_.begin(), calls_.end(), [&](auto& count) { return count.first == name; });
  if (counted == calls_.end()) counted = calls_.insert(counted, {name, 0});
  const auto number = counted->second++;
  auto tensors = call.tensors;
  bool any = false;
  const at::NoGradGuard below;  // autograd goes by the tensors that the op was given
  for (const auto& row : inputs_) {
    if (!is_it(row) || (row.number >= 0 && row.number != number)) continue;
    const auto i = as_size(row.index);
    LOCKSTEP_CHECK(i < tensors.size(), "[plan] ", row.what, ": ", name, " has ", tensors.size(), " tensors");
    LOCKSTEP_CHECK(!call.operands.mutated[i], "[plan] ", row.what, ": ", name,
                   " writes to that input, and a copy of it would be written; move it before");
    auto moved = moved_by(row, tensors[i]);
    any |= !moved.is_same(tensors[i]);
    tensors[i] = std::move(moved);
  }
  return any ? tensors : PerOperand<at::Tensor>();
}

}  // namespace lockstep
