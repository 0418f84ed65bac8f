// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "engine/ops/rules/families.h"

namespace lockstep {
namespace {

using namespace rules;

constexpr const char* kPointwise[] = {"acos",
                                      "acosh",
                                      "addcdiv",
                                      "addcmul",
                                      "asin",
                                      "asinh",
                                      "atan",
                                      "atan2",
                                      "atanh",
                                      "bitwise_and",
                                      "bitwise_left_shift",
                                      "bitwise_not",
                                      "bitwise_or",
                                      "bitwise_right_shift",
                                      "bitwise_xor",
                                      "ceil",
                                      "celu",
                                      "clamp",
                                      "clamp_max",
                                      "clamp_min",
                                      "copysign",
                                      "cos",
                                      "cosh",
                                      "digamma",
                                      "elu",
                                      "elu_backward",
                                      "eq",
                                      "erfc",
                                      "erfinv",
                                      "exp2",
                                      "fill",
                                      "floor",
                                      "floor_divide",
                                      "fmax",
                                      "fmin",
                                      "fmod",
                                      "frac",
                                      "gcd",
                                      "ge",
                                      "gelu",
                                      "gelu_backward",
                                      "gt",
                                      "hardsigmoid",
                                      "hardsigmoid_backward",
                                      "hardswish",
                                      "hardswish_backward",
                                      "hardtanh",
                                      "hardtanh_backward",
                                      "heaviside",
                                      "hypot",
                                      "i0",
                                      "isfinite",
                                      "isinf",
                                      "isnan",
                                      "isneginf",
                                      "isposinf",
                                      "le",
                                      "leaky_relu",
                                      "leaky_relu_backward",
                                      "lerp",
                                      "lgamma",
                                      "log_sigmoid_backward",
                                      "log",
                                      "log10",
                                      "log1p",
                                      "log2",
                                      "logaddexp",
                                      "logaddexp2",
                                      "logical_and",
                                      "logical_not",
                                      "logical_or",
                                      "logical_xor",
                                      "logit",
                                      "logit_backward",
                                      "lt",
                                      "masked_fill",
                                      "maximum",
                                      "minimum",
                                      "mish",
                                      "mish_backward",
                                      "nan_to_num",
                                      "ne",
                                      "nextafter",
                                      "pow",
                                      "reciprocal",
                                      "relu",
                                      "remainder",
                                      "round",
                                      "rsqrt",
                                      "rsub",
                                      "sgn",
                                      "sigmoid_backward",
                                      "sign",
                                      "signbit",
                                      "silu",
                                      "silu_backward",
                                      "sin",
                                      "sinc",
                                      "sinh",
                                      "softplus",
                                      "softplus_backward",
                                      "softshrink",
                                      "sqrt",
                                      "square",
                                      "tan",
                                      "tanh_backward",
                                      "threshold",
                                      "threshold_backward",
                                      "trunc",
                                      "where",
                                      "xlogy",
                                      "zero"};
// Total and strictly increasing, so that neither NaNs nor signs of zeros come in where the maximum has none.
constexpr const char* kMonotone[] = {"erf", "exp", "expm1", "sigmoid", "tanh"};
constexpr const char* kCopying[] = {"_to_copy", "clone", "copy", "positive", "lift_fresh", "lift_fresh_copy"};

std::string aten(std::string_view name) {
  return "aten::" + std::string(name);
}

struct Builder {
  std::vector<OpEntry> entries;
  void value(std::string_view name, RowsOf rows, LocalRun run = local::stock) {
    entries.push_back({aten(name), std::move(rows), OpKind::kValue, run});
  }
  void view(std::string_view name, RowsOf rows, LocalRun run = local::stock, bool own_interleaved = false) {
    entries.push_back({aten(name), std::move(rows), OpKind::kView, run, own_interleaved});
  }
  void random(std::string_view name, RowsOf rows) {
    entries.push_back({aten(name), std::move(rows), OpKind::kRandom});
  }
  void scalar(std::string_view name) { entries.push_back({aten(name), none, OpKind::kScalar}); }
};

void add_pointwise(Builder& t) {
  for (const auto* name : kPointwise) t.value(name, pointwise);
  for (const auto* name : kMonotone) t.value(name, monotone);
  for (const auto* name : kCopying) t.value(name, copying);
  t.value("abs", pointwise);
  t.value("neg", pointwise);
  t.value("add", additive);
  t.value("sub", pointwise);
  t.value("mul", multiplicative);
  t.value("div", divisive);
}

void add_products(Builder& t) {
  t.value("mm", mm, local::contraction);
  t.value("bmm", bmm, local::contraction);
  t.value("addmm", addmm, local::contraction);
  t.value("baddbmm", baddbmm, local::contraction);
  t.value("mv", mv, local::contraction);
  t.value("dot", dot, local::contraction);
}

void add_reductions(Builder& t) {
  t.value("sum", rules::sum, local::reduction);
  t.value("mean", mean, local::reduction);
  t.value("prod", prod, local::reduction);
  t.value("amax", amax, local::reduction);
  t.value("amin", amin, local::reduction);
  t.value("any", rules::any, local::reduction);
  t.value("all", rules::all, local::reduction);
  t.value("argmax", replicate_reduced_dims);
  t.value("argmin", replicate_reduced_dims);
  t.value("logsumexp", replicate_reduced_dims);
  t.value("var", replicate_reduced_dims);
  t.value("var_mean", replicate_reduced_dims);
  t.value("std", replicate_reduced_dims);
  t.value("linalg_vector_norm", replicate_reduced_dims_at_2);
  t.value("norm", replicate_reduced_dims_at_2);
  t.value("_foreach_norm", none);
  t.value("max", replicate_reduced_dims);
  t.value("min", replicate_reduced_dims);
}

void add_views(Builder& t) {
  t.view("view", reshape_view, local::shape_at_1, true);
  // A copy, so its input may move; like view it names interleaved shards itself.
  t.entries.push_back({aten("_unsafe_view"), reshape_view, OpKind::kValue, local::shape_at_1, true});
  t.view("_reshape_alias", reshape_view, local::as_view, true);
  t.view("transpose", transpose);
  t.view("permute", permute);
  t.view("t", matrix_transpose);
  t.view("expand", expand, local::shape_at_1);
  t.view("squeeze", squeeze, local::squeeze);
  t.view("unsqueeze", unsqueeze);
  t.view("alias", identity_view);
  t.view("detach", identity_view);
  t.view("as_strided", identity_view, local::as_alias);
  t.view("select", select);
  t.view("slice", slice, local::full_slice);
  t.view("split", split);
  t.view("split_with_sizes", split);
  t.view("unbind", unbind);
  t.view("diagonal", diagonal);
}

void add_indexing_and_norms(Builder& t) {
  t.value("index_select", index_select);
  t.value("gather", gather);
  t.value("scatter", scatter);
  t.value("scatter_add", scatter);
  t.value("cat", cat);
  t.value("stack", stack);
  t.value("tril", triangle);
  t.value("triu", triangle);
  t.value("cumsum", dim_whole_at_1);
  t.value("cumprod", dim_whole_at_1);
  t.value("sort", rules::sort);
  t.value("flip", none);
  t.value("roll", none);
  t.value("topk", topk);
  t.value("select_backward", select_backward, local::shape_at_1);
  t.value("slice_backward", slice_backward, local::shape_at_1);
  t.value("embedding", rules::embedding, local::embedding);
  t.value("embedding_dense_backward", embedding_dense_backward);
  t.value("index", index);
  t.value("index_add", none);
  t.value("index_put", none);
  t.value("index_fill", none);
  t.value("diagonal_backward", none);
  t.value("constant_pad_nd", none);
  t.value("_log_softmax", replicate_along_dim);
  t.value("_softmax", replicate_along_dim);
  t.value("_safe_softmax", replicate_along_dim);
  t.value("_log_softmax_backward_data", softmax_backward);
  t.value("_softmax_backward_data", softmax_backward);
  t.value("native_layer_norm", layer_norm);
  t.value("native_layer_norm_backward", layer_norm_backward);
  t.value("_fused_rms_norm", rms_norm);
  t.value("_fused_rms_norm_backward", rms_norm_backward);
  t.value("nll_loss_forward", nll_loss);
  t.value("nll_loss_backward", nll_loss_backward);
  t.value("_fused_adamw", pointwise);
  t.value("_fused_adam", pointwise);
  t.value("_fused_sgd", pointwise);
  t.value("linalg_qr", none);
  t.value("mse_loss", none);
  t.value("mse_loss_backward", none);
  t.value("convolution", convolution);
  t.value("convolution_backward", convolution_backward);
  t.value("max_pool2d_with_indices", pool);
  t.value("max_pool2d_with_indices_backward", pool);
  t.value("avg_pool2d", pool);
  t.value("avg_pool2d_backward", pool);
  t.value("_adaptive_avg_pool2d", pool);
  t.value("_adaptive_avg_pool2d_backward", pool);
}

void add_factories_and_random(Builder& t) {
  for (const auto* name : {"zeros_like", "ones_like", "empty_like", "full_like"}) t.value(name, like);
  for (const auto* name : {"new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"})
    t.value(name, new_tensor, local::shape_at_1);
  for (const auto* name : {"rand_like", "randn_like", "randint_like", "uniform", "normal_functional",
                           "log_normal", "cauchy", "exponential", "geometric", "random"})
    t.random(name, like);
  t.random("bernoulli", bernoulli);
  t.random("normal", normal);
  t.random("native_dropout", dropout);
  t.random("rrelu_with_noise", pointwise);
  t.value("rrelu_with_noise_backward", pointwise);
  t.random("multinomial", none);
  t.value("native_dropout_backward", pointwise);
}

void add_scalars(Builder& t) {
  for (const auto* name : {"_local_scalar_dense", "equal", "is_nonzero"}) t.scalar(name);
}

std::vector<OpEntry> build() {
  Builder t;
  add_pointwise(t);
  add_products(t);
  add_reductions(t);
  add_views(t);
  add_indexing_and_norms(t);
  add_factories_and_random(t);
  add_scalars(t);
  std::sort(t.entries.begin(), t.entries.end(),
            [](const OpEntry& a, const OpEntry& b) { return a.name < b.name; });
  return std::move(t.entries);
}

std::atomic<uint64_t> g_version = 0;  // of the user table

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
  ++g_version;
}

void unregister_sharding(std::string_view name) {
  auto& table = user_table();
  if (const auto it = table.find(name); it != table.end()) table.erase(it);
  ++g_version;
}

bool rules_changed(uint64_t& seen) {
  const uint64_t now = g_version;
  return std::exchange(seen, now) != now;
}

}  // namespace lockstep
