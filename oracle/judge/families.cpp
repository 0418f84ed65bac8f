// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/families.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "engine/values/text.h"

namespace lockstep::oracle {
namespace {

// ---- roundings ----

int64_t few(Shapes, Shapes) {
  return 4;
}
// Every element of the input that falls to one of the output.
int64_t reduced(Shapes in, Shapes out) {
  return c10::multiply_integers(in[0]) / std::max<int64_t>(1, c10::multiply_integers(out[0])) + 4;
}
int64_t all_elements(Shapes in, Shapes) {
  return c10::multiply_integers(in[0]) + 4;
}
// The contraction of a product of matrices, its factors beginning at input `first`; and what is added.
template <size_t kFirst>
int64_t inner(Shapes in, Shapes) {
  return (in[kFirst].empty() ? 1 : in[kFirst].back()) + 4;
}
int64_t first_rows(Shapes in, Shapes) {
  return (in[0].empty() ? 1 : in[0].front()) + 4;
}
int64_t second_numel(Shapes in, Shapes) {
  return c10::multiply_integers(in[1]) + 4;
}
int64_t rows(Shapes in, Shapes out) {
  return c10::multiply_integers(in[0]) / std::max<int64_t>(1, c10::multiply_integers(out[1])) + 8;
}
int64_t convolution_terms(Shapes in, Shapes) {
  return c10::multiply_integers(in[0]) + c10::multiply_integers(in[2]) + 4;
}
int64_t along(Shapes in, Shapes) {
  int64_t most = 1;
  for (const int64_t n : in[0]) most = std::max(most, n);
  return most + 8;
}

constexpr std::string_view kInnerReduction =
    "a reduction over a dimension that is not the last vectorises over the kept ones, whose number is local";
constexpr std::string_view kBatched =
    "the stock kernel of a batched product is chosen by the size of its matrices";
constexpr std::string_view kScalarTail =
    "the vector body and the scalar tail of the kernel round differently";
constexpr std::string_view kNanInTail =
    "given NaN, of the vector body of the stock kernel and its scalar tail one gives NaN and one a number";
constexpr std::string_view kGateInTail =
    "where the input is NaN the vector body of the stock kernel gives zero and its scalar tail the gradient";
constexpr std::string_view kNanSignInTail =
    "of a NaN that is made wider the vector body of the stock kernel keeps the sign and its scalar tail not";
constexpr std::string_view kRoundedInTail =
    "the scalar tail of the stock kernel rounds a narrow quotient before it truncates, the vector body after";
constexpr std::string_view kOneDivisor =
    "by one element the stock kernel divides narrow numbers in float, by several in their own dtype";
constexpr std::string_view kSignInTail =
    "of a negative number that shrinks to zero the scalar tail of the stock kernel keeps the sign";
constexpr std::string_view kRowBlocks = "sums over rows are split by the number of rows";

constexpr std::string_view kAlgorithm = "the algorithm of a convolution is chosen by the size of the batch";

// Ops that differ in nothing but the name.
struct Line {
  std::string_view names;
  OpFamily family;
};

constexpr Line linear(Roundings roundings, std::string_view names, std::string_view local_kernel = {}) {
  return {names, {.roundings = roundings, .local_kernel = local_kernel}};
}
constexpr Line local(Bound bound, Roundings roundings, std::string_view reason, std::string_view names) {
  return {names, {.bound = bound, .roundings = roundings, .local_kernel = reason}};
}

constexpr Line kLines[] = {
    linear(few, "add sub mul div native_dropout native_dropout_backward"),
    linear(reduced, "sum mean", kInnerReduction),
    linear(along, "cumsum", kInnerReduction),
    linear(inner<0>, "mm bmm mv experts::grouped_linear experts::grouped_linear_input", kBatched),
    linear(first_rows, "experts::grouped_linear_weight", kBatched),
    linear(inner<1>, "addmm baddbmm", kBatched),
    linear(all_elements, "dot"),
    {"embedding_dense_backward", {.roundings = second_numel, .accumulates_narrow = true}},
    {"convolution_backward",
     {.roundings = convolution_terms,
      .accumulates_narrow = true,
      .local_kernel = kAlgorithm,
      .fast_lane = true}},
    {"convolution",
     {.roundings = second_numel, .accumulates_narrow = true, .local_kernel = kAlgorithm, .fast_lane = true}},
    local(Bound::kLayerNorm, rows, kRowBlocks, "native_layer_norm_backward"),
    local(Bound::kRmsNorm, rows, kRowBlocks, "_fused_rms_norm_backward"),
    {"prod",
     {.bound = Bound::kRelative,
      .roundings = reduced,
      .accumulates_narrow = true,
      .local_kernel = kInnerReduction}},
    local(Bound::kRelative, few, kScalarTail, "pow"),
    local(Bound::kTwoPaths, nullptr, kNanInTail,
          "_fused_adamw _fused_adam elu_backward hardswish_backward logit_backward"),
    local(Bound::kTwoPaths, nullptr, kGateInTail, "hardtanh_backward softshrink_backward"),
    local(Bound::kTwoPaths, nullptr, kNanSignInTail, "copysign"),
    {"softshrink", {.bound = Bound::kTwoPaths, .local_kernel = kSignInTail, .zero_sign = true}},
    local(Bound::kTwoPaths, nullptr, kRoundedInTail, "div_mode"),
    local(Bound::kTwoPaths, nullptr, kOneDivisor, "floor_divide"),
    local(Bound::kRelative, reduced, kInnerReduction, "linalg_vector_norm norm"),
    local(Bound::kVariance, reduced, kInnerReduction, "var std var_mean"),
    local(Bound::kLogSoftmax, reduced, kInnerReduction, "logsumexp"),
    local(Bound::kSoftmax, along, kInnerReduction, "_softmax _safe_softmax"),
    local(Bound::kLogSoftmax, along, kInnerReduction, "_log_softmax"),
    local(Bound::kSoftmaxBackward, along, kInnerReduction, "_softmax_backward_data"),
    local(Bound::kLogSoftmaxBackward, along, kInnerReduction, "_log_softmax_backward_data"),
    local(Bound::kRelative, along, kInnerReduction, "cumprod"),
};

constexpr std::string_view kUntagged =
    "_fused_sgd abs celu elu eq fill gcd ge gelu gt hardsigmoid hardsigmoid_backward hardswish "
    "hardtanh heaviside le leaky_relu leaky_relu_backward log_sigmoid_backward lt masked_fill mish "
    "mish_backward mse_loss_backward ne relu rrelu_with_noise_backward rsub softplus_backward threshold "
    "xlogy";

// Reasons, and the ops that they are of.
constexpr EqualOps kEqualOps[] = {
    {"each element of the result is one of the input, its place, or a constant",
     "alias all amax amin any argmax argmin as_strided cat clone constant_pad_nd copy detach diagonal "
     "diagonal_backward embedding empty_like expand experts::permute_rows flip full_like gather index "
     "index_fill "
     "index_select lift_fresh lift_fresh_copy masked_select max min new_empty new_empty_strided "
     "new_full new_ones new_zeros nonzero ones_like permute positive reshape _reshape_alias roll "
     "scatter select select_backward slice slice_backward sort split split_with_sizes squeeze stack t "
     "_to_copy topk transpose tril triu unbind unsqueeze _unsafe_view view zero zeros_like"},
    {"its kernel goes over one slice after another, however many there are",
     "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _fused_rms_norm avg_pool2d avg_pool2d_backward "
     "max_pool2d_with_indices max_pool2d_with_indices_backward native_layer_norm nll_loss_backward "
     "optim::dequantize_int8 optim::dequantize_tiles optim::quantize_int8 optim::quantize_tiles scatter_add"},
    {"each element by itself, though libtorch does not tag each overload so", kUntagged},
    {"no rule cuts what it reduces",
     "index_add index_put _index_put_impl linalg_qr mse_loss nll_loss_forward optim::newton_schulz"},
};

constexpr std::array<std::string_view, 5> kUnset = {
    "aten::empty_like", "aten::new_empty", "aten::new_empty_strided", "aten::empty", "aten::empty_strided"};

bool names(std::string_view list, const Operator& op) {
  const auto all = split(list, ' ');
  return std::find(all.begin(), all.end(), family_key(op.name)) != all.end();
}

}  // namespace

// "aten::add_.Tensor" -> "add"; a quotient that is made an integer is another op than a quotient.
std::string_view family_key(std::string_view name) {
  if (name.starts_with("aten::div") && name.ends_with("_mode")) return "div_mode";
  if (name.starts_with("aten::")) name.remove_prefix(6);
  name = stem(name);
  if (name.starts_with("_foreach_")) name.remove_prefix(9);
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

const OpFamily* find_family(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpFamily*> map;
    for (const OpFamily& f : families()) map.emplace(f.name, &f);
    return map;
  }();
  const auto found = table.find(family_key(name));
  return found == table.end() ? nullptr : found->second;
}

std::span<const OpFamily> families() {
  static const auto all = [] {
    std::vector<OpFamily> list;
    for (const auto& [names, family] : kLines)
      for (const auto name : split(names, ' ')) list.emplace_back(family).name = name;
    return list;
  }();
  return all;
}

std::span<const EqualOps> equal_ops() {
  return kEqualOps;
}

bool is_pointwise(const Operator& op) {
  return op.handle.hasTag(at::Tag::pointwise) || names(kUntagged, op) || names("floor_divide", op) ||
         (op.name.starts_with("aten::_foreach_") && !op.name.starts_with("aten::_foreach_norm"));
}

bool is_known(const Operator& op) {
  if (op.composite || op.random || is_pointwise(op) || find_family(op.name) != nullptr) return true;
  return std::any_of(std::begin(kEqualOps), std::end(kEqualOps),
                     [&](const EqualOps& e) { return names(e.names, op); });
}

bool leaves_unset(std::string_view name) {
  return std::find(kUnset.begin(), kUnset.end(), stem(name)) != kUnset.end();
}

}  // namespace lockstep::oracle
