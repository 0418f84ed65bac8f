// SPDX-License-Identifier: Apache-2.0
// Pointwise ops: a shard of an output dimension is the same shard of every input that has that dimension.
#include <algorithm>

#include "engine/ops/rules/families.h"

namespace lockstep::rules {
namespace {

// The placement of input i where output dimension `dim` of `ndim` is sharded: broadcast inputs stay whole.
Placement aligned(const TensorMeta& input, int64_t dim, int64_t ndim, int64_t extent) {
  const int64_t own = dim - (ndim - input.ndim());
  if (own < 0 || input.shape[static_cast<size_t>(own)] != extent) return Replicate{};
  return Shard{own};
}

Rows shard_rows(const OpCall& call) {
  Rows rows;
  const auto& out = call.outputs[0];
  for (int64_t dim = 0; dim < out.ndim(); ++dim) {
    Row row{Placements(call.outputs.size(), Shard{dim}), {}, {}};
    for (const auto& input : call.inputs)
      row.inputs.push_back(aligned(input, dim, out.ndim(), out.shape[static_cast<size_t>(dim)]));
    rows.push_back(std::move(row));
  }
  add_ragged_rows(rows, call);
  return rows;
}

Row partial_row(const OpCall& call, ReduceOp op, const std::vector<bool>& partial) {
  auto row = replicate_row(call);
  for (auto& output : row.outputs) output = Partial{op};
  for (size_t i = 0; i < partial.size(); ++i)
    if (partial[i]) row.inputs[i] = Partial{op};
  return row;
}

bool changes_dtype(const OpCall& call) {
  return call.inputs[0].dtype != call.outputs[0].dtype;
}

constexpr ReduceOp kLinear[] = {ReduceOp::kSum, ReduceOp::kAvg};

Rows scaled_by_constant(const OpCall& call) {
  auto rows = shard_rows(call);
  const bool constant = call.inputs.size() == 1 && call.args.size() > 1 && positive(call.args[1]);
  if (!constant || changes_dtype(call) || !c10::isFloatingType(call.outputs[0].dtype)) return rows;
  for (const auto op : kLinear) rows.push_back(partial_row(call, op, {true}));
  return rows;
}

bool is_one_element(const TensorMeta& meta) {
  return meta.ndim() == 0 || meta.shape == std::vector<int64_t>{1};
}

// Every tensor of the output's shape cut by `ragged`; nullopt if another tensor cannot meet a flat local.
std::optional<Row> ragged_row(const OpCall& call, const Placement& ragged) {
  auto row = replicate_row(call);
  const auto& shape = call.outputs[0].shape;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined) continue;
    if (call.inputs[i].shape == shape)
      row.inputs[i] = ragged;
    else if (!is_one_element(call.inputs[i]))
      return std::nullopt;
  }
  for (auto& output : row.outputs) output = ragged;
  return row;
}

}  // namespace

void add_ragged_rows(Rows& rows, const OpCall& call) {
  // A flat local has a dimension, and the result's dtype may depend on there being none.
  if (call.outputs[0].ndim() == 0) return;
  for (size_t i = 0; i < call.current.size(); ++i) {
    const auto& placement = call.current[i];
    const bool fits = is_ragged(placement) && call.inputs[i].shape == call.outputs[0].shape;
    const bool first = std::find(call.current.begin(), call.current.begin() + static_cast<ptrdiff_t>(i),
                                 placement) == call.current.begin() + static_cast<ptrdiff_t>(i);
    if (!fits || !first) continue;
    if (auto row = ragged_row(call, placement)) rows.push_back(std::move(*row));
  }
}

// A product over pending terms may lose the sign of zero: (+0)(-2) is -0, but the terms (+0)(-2) and (-0)(-2)
// add up to +0. Only a positive constant keeps every sign.
bool positive(const c10::IValue& value) {
  if (value.isInt()) return value.toInt() > 0;
  return value.isDouble() && value.toDouble() > 0;
}

Rows pointwise(const OpCall& call) {
  return shard_rows(call);
}

Rows additive(const OpCall& call) {
  auto rows = shard_rows(call);
  const auto& out = call.outputs[0];
  // A broadcast or converted term, or a plain scalar, would be added once for each rank; a negative factor
  // turns the identity -0.0 into +0.0.
  for (const auto& input : call.inputs)
    if (input.plain || input.dtype != out.dtype) return rows;
  const bool added = call.args.size() < 3 || positive(call.args[2]);
  if (call.inputs.size() < 2 || out.dtype == c10::kBool || !added) return rows;
  for (const auto op : kLinear)
    rows.push_back(partial_row(call, op, std::vector<bool>(call.inputs.size(), true)));
  return rows;
}

Rows multiplicative(const OpCall& call) {
  return scaled_by_constant(call);
}
Rows divisive(const OpCall& call) {
  return call.args.size() > 2 ? shard_rows(call) : scaled_by_constant(call);
}

Rows copying(const OpCall& call) {
  auto rows = shard_rows(call);
  for (const auto& input : call.inputs)
    if (input.plain || input.dtype != call.outputs[0].dtype) return rows;
  std::vector<bool> all(call.inputs.size(), true);
  for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct})
    rows.push_back(partial_row(call, op, all));
  return rows;
}

Rows monotone(const OpCall& call) {
  auto rows = shard_rows(call);
  if (changes_dtype(call)) return rows;
  std::vector<bool> first(call.inputs.size(), false);
  first[0] = true;
  for (const auto op : {ReduceOp::kMax, ReduceOp::kMin}) rows.push_back(partial_row(call, op, first));
  return rows;
}

}  // namespace lockstep::rules
