// SPDX-License-Identifier: Apache-2.0
// Normalisation, loss and convolution: the batch stays sharded; what is normalised over must be whole.
// Gradients of weights that are shared along the batch pend as sums.
#include "engine/ops/rules/families.h"

namespace lockstep::rules {
namespace {

// Shards of dimension d in the inputs and outputs named, everything else whole.
Row batch(const OpCall& call, int64_t d, std::initializer_list<size_t> inputs,
          std::initializer_list<size_t> outputs) {
  auto row = replicate_row(call);
  for (const size_t i : inputs)
    if (call.inputs[i].defined) row.inputs[i] = Shard{d};
  for (const size_t i : outputs)
    if (call.outputs[i].defined) row.outputs[i] = Shard{d};
  return row;
}

void pend(Row& row, const OpCall& call, std::initializer_list<size_t> outputs) {
  for (const size_t i : outputs)
    if (call.outputs[i].defined) row.outputs[i] = Partial{};
}

}  // namespace

// grad_output, output, dim.
Rows softmax_backward(const OpCall& call) {
  Rows rows;
  const int64_t ndim = call.inputs[0].ndim(), whole = wrap_dim(call.integer(2), ndim);
  for (int64_t d = 0; d < ndim; ++d)
    if (d != whole) rows.push_back(batch(call, d, {0, 1}, {0}));
  return rows;
}

// input, normalized_shape, weight, bias -> output, mean, rstd.
Rows layer_norm(const OpCall& call) {
  Rows rows;
  const auto normalized = static_cast<int64_t>(call.integers(1).size());
  for (int64_t d = 0; d < call.inputs[0].ndim() - normalized; ++d)
    rows.push_back(batch(call, d, {0}, {0, 1, 2}));
  return rows;
}

// grad_output, input, normalized_shape, mean, rstd, weight, bias -> grads of input, weight, bias.
Rows layer_norm_backward(const OpCall& call) {
  Rows rows;
  const auto normalized = static_cast<int64_t>(call.integers(2).size());
  for (int64_t d = 0; d < call.inputs[1].ndim() - normalized; ++d) {
    auto row = batch(call, d, {0, 1, 2, 3}, {0});
    pend(row, call, {1, 2});
    rows.push_back(std::move(row));
  }
  return rows;
}

// input, normalized_shape, weight, eps -> output, rstd.
Rows rms_norm(const OpCall& call) {
  Rows rows;
  const auto normalized = static_cast<int64_t>(call.integers(1).size());
  for (int64_t d = 0; d < call.inputs[0].ndim() - normalized; ++d)
    rows.push_back(batch(call, d, {0}, {0, 1}));
  return rows;
}

// grad_output, input, normalized_shape, rstd, weight -> grads of input, weight.
Rows rms_norm_backward(const OpCall& call) {
  Rows rows;
  const auto normalized = static_cast<int64_t>(call.integers(2).size());
  for (int64_t d = 0; d < call.inputs[1].ndim() - normalized; ++d) {
    auto row = batch(call, d, {0, 1, 2}, {0});
    pend(row, call, {1});
    rows.push_back(std::move(row));
  }
  return rows;
}

// self, target, weight, reduction, ignore_index -> output, total_weight. Only the unreduced loss keeps a
// batch shard: the others divide by, or report, the total of all ranks.
Rows nll_loss(const OpCall& call) {
  if (call.integer(3) != 0) return {};
  if (call.inputs[0].ndim() != 2) return {};
  return {batch(call, 0, {0, 1}, {0})};
}

// grad_output, self, target, weight, reduction, ignore_index, total_weight -> grad_input.
Rows nll_loss_backward(const OpCall& call) {
  if (call.inputs[1].ndim() != 2) return {};
  return {call.integer(4) == 0 ? batch(call, 0, {0, 1, 2}, {0}) : batch(call, 0, {1, 2}, {0})};
}

// input, weight, bias -> output: samples are independent.
Rows convolution(const OpCall& call) {
  return {batch(call, 0, {0}, {0})};
}

// grad_output, input, weight -> grads of input, weight, bias.
Rows convolution_backward(const OpCall& call) {
  auto row = batch(call, 0, {0, 1}, {0});
  pend(row, call, {1, 2});
  return {row};
}

Rows pool(const OpCall& call) {
  Rows rows;
  for (int64_t d = 0; d + 2 < call.outputs[0].ndim(); ++d) {
    auto row = replicate_row(call);
    for (auto& input : row.inputs) input = Shard{d};
    for (auto& output : row.outputs) output = Shard{d};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::rules
