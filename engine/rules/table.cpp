// SPDX-License-Identifier: Apache-2.0
#include "engine/rules/table.h"

#include <algorithm>
#include <map>

#include "engine/rules/families.h"

namespace lockstep {
namespace {

using namespace rules;

constexpr const char* kPointwise[] = {
    "acos", "acosh", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "celu",
    "clamp", "clamp_max", "clamp_min", "copysign", "cos", "cosh", "digamma", "elu", "elu_backward", "eq", "erfc",
    "erfinv", "exp2", "fill", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "gcd", "ge", "gelu", "gelu_backward",
    "gt", "hardsigmoid", "hardsigmoid_backward", "hardswish", "hardswish_backward", "hardtanh",
    "hardtanh_backward", "heaviside", "hypot", "i0", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "le",
    "leaky_relu", "leaky_relu_backward", "lerp", "lgamma", "log_sigmoid_backward", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logit_backward", "lt", "masked_fill",
    "maximum", "minimum", "mish", "mish_backward", "nan_to_num", "ne", "nextafter", "pow",
    "reciprocal", "relu", "remainder", "round", "rsqrt", "rsub", "sgn", "sigmoid_backward", "sign", "signbit", "silu", "silu_backward",
    "sin", "sinc", "sinh", "softplus", "softplus_backward", "softshrink", "sqrt", "square", "tan", "tanh_backward", "threshold",
    "threshold_backward", "trunc", "where", "xlogy", "zero"};
// Total and strictly increasing, so that neither NaNs nor signs of zeros come in where the maximum has none.
constexpr const char* kMonotone[] = {"erf", "exp", "expm1", "sigmoid", "tanh"};
constexpr const char* kCopying[] = {"_to_copy", "clone", "copy", "positive", "lift_fresh", "lift_fresh_copy"};

std::string aten(std::string_view name) { return "aten::" + std::string(name); }

std::vector<OpEntry> build() {
  std::vector<OpEntry> t;
  const auto value = [&](std::string_view name, RowsOf rows, LocalRun run = local::stock) {
    t.push_back({aten(name), std::move(rows), OpKind::kValue, run});
  };
  const auto view = [&](std::string_view name, RowsOf rows, LocalRun run = local::stock, bool own = false) {
    t.push_back({aten(name), std::move(rows), OpKind::kView, run, own});
  };
  const auto random = [&](std::string_view name, RowsOf rows) { t.push_back({aten(name), std::move(rows), OpKind::kRandom}); };
  for (const auto* name : kPointwise) value(name, pointwise);
  for (const auto* name : kMonotone) value(name, monotone);
  for (const auto* name : kCopying) value(name, copying);
  value("abs", pointwise);
  value("neg", pointwise);
  value("add", additive);
  value("sub", pointwise);
  value("mul", multiplicative);
  value("div", divisive);

  value("mm", mm, local::contraction);
  value("bmm", bmm, local::contraction);
  value("addmm", addmm, local::contraction);
  value("baddbmm", baddbmm, local::contraction);
  value("mv", mv, local::contraction);
  value("dot", dot, local::contraction);

  value("sum", rules::sum, local::reduction);
  value("mean", mean, local::reduction);
  value("prod", prod, local::reduction);
  value("amax", amax, local::reduction);
  value("amin", amin, local::reduction);
  value("any", rules::any, local::reduction);
  value("all", rules::all, local::reduction);
  value("argmax", replicate_reduced_dims);
  value("argmin", replicate_reduced_dims);
  value("logsumexp", replicate_reduced_dims);
  value("var", replicate_reduced_dims);
  value("var_mean", replicate_reduced_dims);
  value("std", replicate_reduced_dims);
  value("linalg_vector_norm", replicate_reduced_dims_at_2);
  value("norm", replicate_reduced_dims_at_2);
  value("_foreach_norm", none);
  value("max", replicate_reduced_dims);
  value("min", replicate_reduced_dims);

  view("view", reshape_view, local::shape_at_1, true);
  value("_unsafe_view", reshape_view, local::shape_at_1);
  view("_reshape_alias", reshape_view, local::as_view, true);
  view("transpose", transpose);
  view("permute", permute);
  view("t", matrix_transpose);
  view("expand", expand, local::shape_at_1);
  view("squeeze", squeeze, local::squeeze);
  view("unsqueeze", unsqueeze);
  view("alias", identity_view);
  view("detach", identity_view);
  view("as_strided", identity_view, local::as_alias);
  view("select", select);
  view("slice", slice, local::full_slice);
  view("split", split);
  view("split_with_sizes", split);
  view("unbind", unbind);
  view("diagonal", diagonal);

  value("index_select", index_select);
  value("gather", gather);
  value("scatter", scatter);
  value("scatter_add", scatter);
  value("cat", cat);
  value("stack", stack);
  value("tril", triangle);
  value("triu", triangle);
  value("cumsum", dim_whole_at_1);
  value("cumprod", dim_whole_at_1);
  value("sort", rules::sort);
  value("flip", none);
  value("roll", none);
  value("topk", topk);
  value("select_backward", select_backward, local::shape_at_1);
  value("slice_backward", slice_backward, local::shape_at_1);
  value("embedding", rules::embedding, local::embedding);
  value("embedding_dense_backward", embedding_dense_backward);
  value("index", index);
  value("index_add", none);
  value("index_put", none);
  value("index_fill", none);
  value("diagonal_backward", none);
  value("constant_pad_nd", none);
  value("_log_softmax", replicate_along_dim);
  value("_softmax", replicate_along_dim);
  value("_safe_softmax", replicate_along_dim);
  value("_log_softmax_backward_data", softmax_backward);
  value("_softmax_backward_data", softmax_backward);
  value("native_layer_norm", layer_norm);
  value("native_layer_norm_backward", layer_norm_backward);
  value("_fused_rms_norm", rms_norm);
  value("_fused_rms_norm_backward", rms_norm_backward);
  value("nll_loss_forward", nll_loss);
  value("nll_loss_backward", nll_loss_backward);
  value("_fused_adamw", pointwise);
  value("_fused_adam", pointwise);
  value("_fused_sgd", pointwise);
  value("mse_loss", none);
  value("mse_loss_backward", none);
  value("convolution", convolution);
  value("convolution_backward", convolution_backward);
  value("max_pool2d_with_indices", pool);
  value("max_pool2d_with_indices_backward", pool);
  value("avg_pool2d", pool);
  value("_adaptive_avg_pool2d", pool);

  for (const auto* name : {"zeros_like", "ones_like", "empty_like", "full_like"}) value(name, like);
  for (const auto* name : {"new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"})
    value(name, new_tensor, local::shape_at_1);
  for (const auto* name : {"rand_like", "randn_like", "randint_like", "uniform", "normal", "random", "bernoulli"})
    random(name, random_like);
  random("native_dropout", dropout);
  value("native_dropout_backward", pointwise);

  for (const auto* name : {"_local_scalar_dense", "equal", "is_nonzero"}) t.push_back({aten(name), none, OpKind::kScalar});
  std::sort(t.begin(), t.end(), [](const OpEntry& a, const OpEntry& b) { return a.name < b.name; });
  return t;
}

std::map<std::string, OpEntry, std::less<>>& user_table() {
  static std::map<std::string, OpEntry, std::less<>> table;
  return table;
}

}  // namespace

const std::vector<OpEntry>& op_table() {
  static const auto table = build();
  return table;
}

const OpEntry* find_op(std::string_view name) {
  const auto& user = user_table();
  if (const auto it = user.find(name); it != user.end()) return &it->second;
  const auto& table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const OpEntry& entry, std::string_view n) { return entry.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

void register_sharding(std::string name, RowsOf rows) {
  OpEntry entry{name, std::move(rows)};
  if (const auto* stock = find_op(name)) {
    entry.kind = stock->kind;
    entry.run = stock->run;
    entry.own_interleaved = stock->own_interleaved;
  }
  user_table()[std::move(name)] = std::move(entry);
}

void unregister_sharding(std::string_view name) {
  auto& table = user_table();
  if (const auto it = table.find(name); it != table.end()) table.erase(it);
}

}  // namespace lockstep
