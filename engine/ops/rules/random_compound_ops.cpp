// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/random_ops.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include "engine/random/compounds.h"
#include "engine/random/draw.h"
#include "engine/stream/random_checks.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

Extents extents(const TensorMeta& global) {
  return {global.shape, global.stride};
}

// What stock's empty_like of the global tensor has.
Extents dense_like(const TensorMeta& global) {
  const auto meta = at::empty_strided(global.shape, global.stride, at::TensorOptions(at::kMeta));
  return {global.shape, at::empty_like(meta).strides().vec()};
}

}  // namespace

RandomResults native_dropout_op(const RandomOp& r) {
  const auto& input = r.call.inputs[0];
  const double p = r.args[1].toDouble();
  const bool train = r.args[2].isNone() || r.args[2].toBool();
  RandomResults results(2);
  if (!train || p == 0 || p == 1 || c10::multiply_integers(input.shape) == 0) {
    const bool keep = p != 1 || !train;
    for (const auto& x : r.placed[0]) {
      results[0].push_back(keep ? x.clone() : at::zeros_like(x));
      results[1].push_back(at::full_like(x, keep, x.options().dtype(at::kBool)));
    }
    return results;
  }
  // Stock numbers the elements of the input: in memory order if it is dense, else logically. A copy that was
  // moved is always dense.
  const RandomCall call{.kind = RandomKind::kDropoutMask,
                        .a = p,
                        .dtype = input.dtype,
                        .shape = input.shape,
                        .stride = r.given[0]->stride()};
  results[1] = draw(call, *r.outputs[1], r.comm);
  for (size_t i = 0; i < r.placed[0].size(); ++i)
    results[0].push_back(drawing().dropout(r.placed[0][i], results[1][i], p));
  return results;
}

// A parameter as it meets the numbers of a rank: one element, or a rank's none of it, may have more
// dimensions than a flat local.
at::Tensor beside(const at::Tensor& numbers, const at::Tensor& parameter) {
  if (parameter.dim() <= numbers.dim() || parameter.numel() > 1) return parameter;
  return parameter.numel() == 1 ? parameter.view(at::IntArrayRef{}) : parameter.flatten();
}

RandomResults bernoulli_op(const RandomOp& r, size_t probabilities) {
  const auto& out = *r.outputs[0];
  const auto call =
      bernoulli_call({out.shape(), out.stride()}, out.dtype(), extents(r.call.inputs[probabilities]));
  for (size_t rank = 0; rank < r.comm.positions.size(); ++rank)
    check_probabilities(r.placed[probabilities][rank]);
  auto numbers = draw(call, out, r.comm);
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    const auto p = beside(numbers[rank], r.placed[probabilities][rank]);
    numbers[rank] = drawing().bernoulli(numbers[rank], p).to(out.dtype());
  }
  return {std::move(numbers)};
}

RandomResults normal_of_tensors_op(const RandomOp& r) {
  const auto& out = *r.outputs[0];
  const bool std_given = r.call.overload != "Tensor_float", mean_given = r.call.overload != "float_Tensor";
  const size_t std_input = mean_given ? 1 : 0;
  const RandomCall call{.kind = RandomKind::kNormal,
                        .b = std_given ? 1 : r.args[1].toDouble(),
                        .dtype = out.dtype(),
                        .shape = out.shape(),
                        .stride = contiguous_strides(out.shape())};
  if (std_given)
    for (size_t rank = 0; rank < r.comm.positions.size(); ++rank) check_stds(r.placed[std_input][rank]);
  auto numbers = draw(call, out, r.comm);
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    auto& z = numbers[rank];
    if (std_given) z.mul_(beside(z, r.placed[std_input][rank]));
    z.add_(mean_given ? beside(z, r.placed[0][rank]) : at::full({}, r.args[0].toDouble(), z.options()));
  }
  return {std::move(numbers)};
}

RandomResults rrelu_op(const RandomOp& r) {
  const auto& out = *r.outputs[0];
  const double lower = r.args[2].toScalar().toDouble(), upper = r.args[3].toScalar().toDouble();
  RandomResults results(1);
  if (!r.args[4].toBool()) {
    for (size_t rank = 0; rank < r.comm.positions.size(); ++rank)
      results[0].push_back(at::leaky_relu(r.placed[0][rank], (lower + upper) / 2));
    return results;
  }
  check_slopes(lower, upper);
  const auto slopes = draw(rrelu_call(out.shape(), out.dtype(), lower, upper), out, r.comm);
  for (size_t rank = 0; rank < slopes.size(); ++rank) {
    const auto& input = r.placed[0][rank];
    const auto noise = drawing().rrelu(input, slopes[rank]);
    r.placed[1][rank].copy_(noise);
    results[0].push_back(input.mul(noise));
  }
  return results;
}

RandomResults multinomial_op(const RandomOp& r) {
  const auto& weights = r.call.inputs[0];
  const int64_t samples = r.args[1].toInt();
  const bool replacement = r.args[2].toBool();
  for (size_t rank = 0; rank < r.comm.positions.size(); ++rank)
    check_multinomial(r.placed[0][rank], samples, replacement);
  const auto call = multinomial_call(dense_like(weights), weights.dtype, samples, replacement);
  auto results = draw(call, r.outputs[0]->with_tensor(call.shape, call.stride, call.dtype), r.comm);
  for (size_t rank = 0; rank < results.size(); ++rank)
    results[rank] = drawing()
                        .multinomial(r.placed[0][rank].cpu(), results[rank].cpu(), samples, replacement)
                        .to(results[rank].device());
  return {std::move(results)};
}

}  // namespace lockstep
