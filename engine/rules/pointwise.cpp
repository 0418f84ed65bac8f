// SPDX-License-Identifier: Apache-2.0
// Pointwise ops: a shard of an output dimension is the same shard of every input that has that dimension.
#include "engine/rules/families.h"

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
  return rows;
}

Row partial_row(const OpCall& call, ReduceOp op, const std::vector<bool>& partial) {
  auto row = replicate_row(call);
  for (auto& output : row.outputs) output = Partial{op};
  for (size_t i = 0; i < partial.size(); ++i)
    if (partial[i]) row.inputs[i] = Partial{op};
  return row;
}

bool changes_dtype(const OpCall& call) { return call.inputs[0].dtype != call.outputs[0].dtype; }

constexpr ReduceOp kLinear[] = {ReduceOp::kSum, ReduceOp::kAvg};

}  // namespace

Rows pointwise(const OpCall& call) { return shard_rows(call); }

Rows linear_unary(const OpCall& call) {
  auto rows = shard_rows(call);
  std::vector<bool> first(call.inputs.size(), false);
  first[0] = true;
  if (!changes_dtype(call) && c10::isFloatingType(call.outputs[0].dtype))
    for (const auto op : kLinear) rows.push_back(partial_row(call, op, first));
  return rows;
}

Rows additive(const OpCall& call) {
  auto rows = shard_rows(call);
  const auto& out = call.outputs[0];
  // A broadcast or converted term, or a plain scalar, would be added once for each rank.
  for (const auto& input : call.inputs)
    if (input.plain || input.dtype != out.dtype) return rows;
  if (call.inputs.size() < 2 || out.dtype == c10::kBool) return rows;
  for (const auto op : kLinear) rows.push_back(partial_row(call, op, std::vector<bool>(call.inputs.size(), true)));
  return rows;
}

Rows multiplicative(const OpCall& call) {
  auto rows = shard_rows(call);
  for (const auto op : kLinear)
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].plain || call.inputs[i].dtype != call.outputs[0].dtype) continue;
      std::vector<bool> one(call.inputs.size(), false);
      one[i] = true;
      rows.push_back(partial_row(call, op, one));
    }
  return rows;
}

Rows divisive(const OpCall& call) {
  auto rows = shard_rows(call);
  if (changes_dtype(call) || !c10::isFloatingType(call.outputs[0].dtype)) return rows;
  std::vector<bool> first(call.inputs.size(), false);
  first[0] = true;
  for (const auto op : kLinear) rows.push_back(partial_row(call, op, first));
  return rows;
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
