// SPDX-License-Identifier: Apache-2.0
// Normalisation, loss and convolution: the batch stays sharded; what is normalised over must be whole.
// Gradients of weights that are shared along the batch pend as sums.
#include <ATen/ATen.h>

#include "engine/ops/rules/families.h"
#include "engine/values/error.h"

namespace lockstep::rules {
namespace {

using Which = std::initializer_list<size_t>;

// Shards of dimension d in the inputs and outputs named, sums that pend in others; everything else whole.
Row batch(const OpCall& call, int64_t d, Which inputs, Which outputs, Which pending = {}) {
  auto row = replicate_row(call);
  for (const size_t i : inputs)
    if (call.inputs[i].defined) row.inputs[i] = Shard{d};
  for (const size_t i : outputs)
    if (call.outputs[i].defined) row.outputs[i] = Shard{d};
  for (const size_t i : pending)
    if (call.outputs[i].defined) row.outputs[i] = Partial{};
  return row;
}

// One for each dimension that is not normalised over, of input 0, which is as large as what is normalised.
Rows batches(const OpCall& call, Which inputs, Which outputs, Which pending = {}) {
  const auto whole = static_cast<int64_t>(call.integers("normalized_shape").size());
  Rows rows;
  for (int64_t d = 0; d + whole < call.inputs[0].ndim(); ++d)
    rows.push_back(batch(call, d, inputs, outputs, pending));
  return rows;
}

// input, weight, bias -> output, mean, rstd.
Rows layer_norm(const OpCall& call) {
  return batches(call, {0}, {0, 1, 2});
}

// grad_output, input, mean, rstd, weight, bias -> grads of input, weight, bias.
Rows layer_norm_backward(const OpCall& call) {
  return batches(call, {0, 1, 2, 3}, {0}, {1, 2});
}

// input, weight -> output, rstd.
Rows rms_norm(const OpCall& call) {
  return batches(call, {0}, {0, 1});
}

// grad_output, input, rstd, weight -> grads of input, weight.
Rows rms_norm_backward(const OpCall& call) {
  return batches(call, {0, 1, 2}, {0}, {1});
}

// self, target, weight -> output, total_weight. Only the unreduced loss keeps a
// batch shard: the others divide by, or report, the total of all ranks.
Rows nll_loss(const OpCall& call) {
  if (call.integer("reduction") != 0) return {};
  if (call.inputs[0].ndim() != 2) return {};
  return {batch(call, 0, {0, 1}, {0})};
}

// grad_output, self, target, weight, total_weight -> grad_input.
Rows nll_loss_backward(const OpCall& call) {
  if (call.inputs[1].ndim() != 2) return {};
  return {call.integer("reduction") == 0 ? batch(call, 0, {0, 1, 2}, {0}) : batch(call, 0, {1, 2}, {0})};
}

// input, weight, bias -> output: samples are independent.
Rows convolution(const OpCall& call) {
  return {batch(call, 0, {0}, {0})};
}

// grad_output, input, weight -> grads of input, weight, bias.
Rows convolution_backward(const OpCall& call) {
  return {batch(call, 0, {0, 1}, {0}, {1, 2})};
}

// --- results ---

// Of the last dimensions, that are normalised over. Kernels keep those of 16 bits in 32: CUDA's, and the
// CPU's where a weight has as many.
at::Tensor statistics(const at::Tensor& input, const Arguments& args) {
  auto shape = input.sizes().vec();
  for (size_t i = shape.size() - args.integers("normalized_shape").size(); i < shape.size(); ++i)
    shape[i] = 1;
  const auto is_float = [&args](const char* name) {
    const auto* of = args.find(name);
    return of != nullptr && of->isTensor() && of->toTensor().scalar_type() == at::kFloat;
  };
  const bool is_wide = at::isReducedFloatingType(input.scalar_type()) &&
                       (args.device() == c10::kCUDA || is_float("weight") || is_float("bias"));
  return is_wide ? at::empty(shape, input.options().dtype(at::kFloat)) : sized(input, shape);
}

Metas of_layer_norm(const Arguments& args) {
  const auto input = args.tensor("input");
  return {{sized(input, input.sizes()), statistics(input, args), statistics(input, args)}};
}
Metas of_rms_norm(const Arguments& args) {
  const auto input = args.tensor("input");
  return {{sized(input, input.sizes()), statistics(input, args)}};
}

// Those of its gradients that are asked for, each of the form of what it is the gradient of.
Metas asked_for(const Arguments& args, std::initializer_list<const char*> names) {
  const auto mask = args["output_mask"].toBoolList();
  std::vector<at::Tensor> gradients;
  for (const auto* name : names) {
    const auto of = args.tensor(name);
    gradients.push_back(mask[gradients.size()] && of.defined() ? sized(of, of.sizes()) : at::Tensor());
  }
  return gradients;
}

Metas of_layer_norm_backward(const Arguments& args) {
  return asked_for(args, {"input", "weight", "bias"});
}

Metas of_rms_norm_backward(const Arguments& args) {
  return asked_for(args, {"input", "weight"});
}

// Two-dimensional convolutions work in channels-last order if the input or the weight lies so; those of one
// dimension as those of two, of which the first is 1, on an input made contiguous.
at::Tensor convolution_result(const at::Tensor& of, at::IntArrayRef shape, const at::Tensor& input,
                              const at::Tensor& weight) {
  if (input.dim() == 3) {
    auto wide = shape.vec();
    wide.insert(wide.begin() + 2, 1);
    return convolution_result(of, wide, input.contiguous().unsqueeze(2), weight.unsqueeze(2)).squeeze(2);
  }
  const auto last = at::MemoryFormat::ChannelsLast;
  const bool channels_last =
      input.dim() == 4 && (input.suggest_memory_format() == last || weight.suggest_memory_format() == last);
  return at::empty(shape, of.options(), channels_last ? last : at::MemoryFormat::Contiguous);
}

Metas of_convolution(const Arguments& args) {
  const auto input = args.tensor("input"), weight = args.tensor("weight");
  if (args["transposed"].toBool())
    throw NotBuilt(
        "[aten::convolution] transposed convolutions have no sharding rule in this version; "
        "call it on full_tensor()");
  const auto of = [&](std::string_view name, int64_t d) {
    const auto values = args.integers(name);
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(d - 2)];
  };
  // Of no channels the kernels make none.
  std::vector<int64_t> shape{input.size(0), input.size(1) == 0 ? 0 : weight.size(0)};
  for (int64_t d = 2; d < input.dim(); ++d) {
    const int64_t window = of("dilation", d) * (weight.size(d) - 1) + 1;
    shape.push_back((input.size(d) + 2 * of("padding", d) - window) / of("stride", d) + 1);
  }
  return {{convolution_result(input, shape, input, weight)}};
}

Metas of_convolution_backward(const Arguments& args) {
  const auto grad = args.tensor("grad_output"), input = args.tensor("input"), weight = args.tensor("weight");
  const auto mask = args["output_mask"].toBoolList();
  const auto result = [&](const at::Tensor& of) { return convolution_result(of, of.sizes(), input, weight); };
  const bool pointwise = c10::multiply_integers(weight.sizes().slice(2)) == 1;
  return {{mask[0] ? result(input) : at::Tensor(),
           !mask[1]    ? at::Tensor()
           : pointwise ? sized(weight, weight.sizes())
                       : result(weight),
           mask[2] ? sized(grad, {grad.size(1)}) : at::Tensor()}};
}

Metas of_adaptive_pool(const Arguments& args) {
  const auto self = args.tensor("self");
  auto shape = self.sizes().vec();
  const auto out = args.integers("output_size");
  std::copy(out.begin(), out.end(), shape.end() - static_cast<int64_t>(out.size()));
  const auto result = sized(self, shape);
  return {{shape.size() == 4 ? result.contiguous(self.suggest_memory_format()) : result}};
}

}  // namespace

Records norm_ops() {
  // clang-format off
  return {
      {.name = "_log_softmax", .rows = dim_whole, .memory_of_out = OutMemory::kContiguous},
      {.name = "_softmax", .rows = dim_whole, .memory_of_out = OutMemory::kContiguous},
      {.name = "_safe_softmax", .rows = dim_whole},
      {.name = "_log_softmax_backward_data", .rows = dim_whole, .memory_of_out = OutMemory::kContiguous},
      {.name = "_softmax_backward_data", .rows = dim_whole, .memory_of_out = OutMemory::kContiguous},
      {.name = "native_layer_norm", .rows = layer_norm, .infer = of_layer_norm},
      {.name = "native_layer_norm_backward", .rows = layer_norm_backward, .infer = of_layer_norm_backward},
      {.name = "_fused_rms_norm", .rows = rms_norm, .infer = of_rms_norm},
      {.name = "_fused_rms_norm_backward", .rows = rms_norm_backward, .infer = of_rms_norm_backward},
      {.name = "nll_loss_forward", .rows = nll_loss},
      {.name = "nll_loss_backward", .rows = nll_loss_backward},
      {.name = "linalg_qr"},
      {.name = "convolution", .rows = convolution, .infer = of_convolution},
      {.name = "convolution_backward", .rows = convolution_backward, .infer = of_convolution_backward},
      // Batch and channel dimensions of NCHW stay sharded; the kernels take an empty batch, but not a
      // number of zero channels.
      {.name = "max_pool2d_with_indices", .rows = last_two_whole, .run = local::unless_empty},
      {.name = "max_pool2d_with_indices_backward", .rows = last_two_whole, .run = local::unless_empty},
      {.name = "avg_pool2d", .rows = last_two_whole, .run = local::unless_empty},
      {.name = "avg_pool2d_backward", .rows = last_two_whole, .run = local::unless_empty},
      {.name = "_adaptive_avg_pool2d", .rows = last_two_whole, .run = local::unless_empty,
       .infer = of_adaptive_pool},
      {.name = "_adaptive_avg_pool2d_backward", .rows = last_two_whole, .run = local::unless_empty},
  };
  // clang-format on
}

}  // namespace lockstep::rules
