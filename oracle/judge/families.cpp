// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/families.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

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
int64_t second_numel(Shapes in, Shapes) {
  return c10::multiply_integers(in[1]) + 4;
}
int64_t rows(Shapes in, Shapes out) {
  return c10::multiply_integers(in[0]) / std::max<int64_t>(1, c10::multiply_integers(out[1])) + 8;
}
int64_t convolution_terms(Shapes in, Shapes) {
  return c10::multiply_integers(in[0]) + c10::multiply_integers(in[2]) + 4;
}
int64_t filter_terms(Shapes in, Shapes) {
  return c10::multiply_integers(in[1]) + 4;
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
    "given NaN, the vector body of the stock kernel gives NaN and its scalar tail a number";
constexpr std::string_view kRoundedInTail =
    "the scalar tail of the stock kernel rounds a narrow quotient before it truncates, the vector body after";
constexpr std::string_view kRowBlocks = "sums over rows are split by the number of rows";

constexpr std::string_view kAlgorithm = "the algorithm of a convolution is chosen by the size of the batch";

constexpr OpFamily exact(std::string_view name, bool reduces = false) {
  return {.name = name, .reduces = reduces, .commutes = true};
}
constexpr OpFamily linear(std::string_view name, Roundings roundings, bool reduces,
                          std::string_view local_kernel = {}) {
  return {.name = name,
          .bound = Bound::kLinear,
          .roundings = roundings,
          .reduces = reduces,
          .commutes = true,
          .local_kernel = local_kernel};
}
constexpr OpFamily local(std::string_view name, Bound bound, Roundings roundings, std::string_view reason) {
  return {.name = name, .bound = bound, .roundings = roundings, .local_kernel = reason};
}

constexpr auto kFamilies = std::to_array<OpFamily>({
    // Moves: every element of the result is one element of the input, or a constant that is nothing to a sum.
    exact("alias"),
    exact("as_strided"),
    exact("cat"),
    exact("clone"),
    exact("copy"),
    exact("detach"),
    exact("diagonal"),
    exact("embedding", true),
    exact("expand"),
    exact("flip"),
    exact("gather"),
    exact("index_select"),
    exact("lift_fresh"),
    exact("lift_fresh_copy"),
    exact("permute"),
    exact("positive"),
    exact("reshape"),
    exact("_reshape_alias"),
    exact("roll"),
    exact("select"),
    exact("select_backward"),
    exact("slice"),
    exact("slice_backward"),
    exact("split"),
    exact("split_with_sizes"),
    exact("squeeze"),
    exact("stack"),
    exact("t"),
    exact("_to_copy"),
    exact("transpose"),
    exact("tril"),
    exact("triu"),
    exact("unbind"),
    exact("unsqueeze"),
    exact("_unsafe_view"),
    exact("view"),
    // The greatest of the images is the image of the greatest.
    exact("ceil"),
    exact("erf"),
    exact("exp"),
    exact("expm1"),
    exact("floor"),
    exact("log"),
    exact("log10"),
    exact("log1p"),
    exact("log2"),
    exact("relu"),
    exact("round"),
    exact("sigmoid"),
    exact("sqrt"),
    exact("tanh"),
    exact("trunc"),
    exact("all", true),
    exact("amax", true),
    exact("amin", true),
    exact("any", true),
    exact("max", true),
    exact("min", true),
    // Sums.
    exact("neg"),
    linear("add", few, false),
    linear("sub", few, false),
    linear("mul", few, false),
    linear("div", few, false),
    linear("native_dropout", few, false),
    linear("native_dropout_backward", few, false),
    linear("sum", reduced, true, kInnerReduction),
    linear("mean", reduced, true, kInnerReduction),
    linear("cumsum", along, false, kInnerReduction),
    linear("mm", inner<0>, true, kBatched),
    linear("bmm", inner<0>, true, kBatched),
    linear("addmm", inner<1>, true, kBatched),
    linear("baddbmm", inner<1>, true, kBatched),
    linear("mv", inner<0>, true, kBatched),
    linear("dot", all_elements, true),
    {.name = "embedding_dense_backward",
     .bound = Bound::kLinear,
     .roundings = second_numel,
     .reduces = true,
     .commutes = true,
     .accumulates_narrow = true},
    {.name = "convolution_backward",
     .bound = Bound::kLinear,
     .roundings = convolution_terms,
     .reduces = true,
     .accumulates_narrow = true,
     .local_kernel = kAlgorithm,
     .fast_lane = true},
    {.name = "convolution",
     .bound = Bound::kLinear,
     .roundings = filter_terms,
     .accumulates_narrow = true,
     .local_kernel = kAlgorithm,
     .fast_lane = true},
    {.name = "native_layer_norm_backward",
     .bound = Bound::kLayerNorm,
     .roundings = rows,
     .reduces = true,
     .local_kernel = kRowBlocks},
    {.name = "_fused_rms_norm_backward",
     .bound = Bound::kRmsNorm,
     .roundings = rows,
     .reduces = true,
     .local_kernel = kRowBlocks},
    // Products.
    {.name = "prod",
     .bound = Bound::kRelative,
     .roundings = reduced,
     .reduces = true,
     .accumulates_narrow = true,
     .local_kernel = kInnerReduction},
    // Local kernels only.
    local("pow", Bound::kRelative, few, kScalarTail),
    local("_fused_adamw", Bound::kTwoPaths, nullptr, kNanInTail),
    local("_fused_adam", Bound::kTwoPaths, nullptr, kNanInTail),
    local("elu_backward", Bound::kTwoPaths, nullptr, kNanInTail),
    local("div_mode", Bound::kTwoPaths, nullptr, kRoundedInTail),
    local("linalg_vector_norm", Bound::kRelative, reduced, kInnerReduction),
    local("norm", Bound::kRelative, reduced, kInnerReduction),
    local("var", Bound::kVariance, reduced, kInnerReduction),
    local("std", Bound::kVariance, reduced, kInnerReduction),
    local("var_mean", Bound::kVariance, reduced, kInnerReduction),
    local("logsumexp", Bound::kLogSoftmax, reduced, kInnerReduction),
    local("_softmax", Bound::kSoftmax, along, kInnerReduction),
    local("_safe_softmax", Bound::kSoftmax, along, kInnerReduction),
    local("_log_softmax", Bound::kLogSoftmax, along, kInnerReduction),
    local("_softmax_backward_data", Bound::kSoftmaxBackward, along, kInnerReduction),
    local("_log_softmax_backward_data", Bound::kLogSoftmaxBackward, along, kInnerReduction),
    local("cumprod", Bound::kRelative, along, kInnerReduction),
});

constexpr std::string_view kChooses =
    "each element of the result is one of the input, its place, or a constant";
constexpr std::string_view kOneSlice = "its kernel goes over one slice after another, however many there are";
constexpr std::string_view kElements =
    "each element by itself, though libtorch does not tag each overload so";
constexpr std::string_view kWhole = "no rule cuts what it reduces: it runs on whole tensors";

constexpr auto kEqualOps = std::to_array<EqualOp>({
    {"_adaptive_avg_pool2d", kOneSlice},
    {"_adaptive_avg_pool2d_backward", kOneSlice},
    {"_fused_rms_norm", kOneSlice},
    {"_fused_sgd", kElements},
    {"abs", kElements},
    {"argmax", kChooses},
    {"argmin", kChooses},
    {"avg_pool2d", kOneSlice},
    {"avg_pool2d_backward", kOneSlice},
    {"constant_pad_nd", kChooses},
    {"diagonal_backward", kChooses},
    {"empty_like", kChooses},
    {"eq", kElements},
    {"fill", kElements},
    {"floor_divide", kElements},
    {"full_like", kChooses},
    {"hardsigmoid_backward", kElements},
    {"hardswish", kElements},
    {"hardswish_backward", kElements},
    {"hardtanh_backward", kElements},
    {"index", kChooses},
    {"index_add", kWhole},
    {"index_fill", kChooses},
    {"index_put", kWhole},
    {"leaky_relu", kElements},
    {"leaky_relu_backward", kElements},
    {"linalg_qr", kWhole},
    {"log_sigmoid_backward", kElements},
    {"masked_fill", kElements},
    {"max_pool2d_with_indices", kOneSlice},
    {"max_pool2d_with_indices_backward", kOneSlice},
    {"mish_backward", kElements},
    {"mse_loss", kWhole},
    {"mse_loss_backward", kElements},
    {"native_layer_norm", kOneSlice},
    {"new_empty", kChooses},
    {"new_empty_strided", kChooses},
    {"new_full", kChooses},
    {"new_ones", kChooses},
    {"new_zeros", kChooses},
    {"nll_loss_backward", kElements},
    {"nll_loss_forward", kWhole},
    {"ones_like", kChooses},
    {"rrelu_with_noise_backward", kElements},
    {"rsub", kElements},
    {"scatter", kChooses},
    {"scatter_add", kOneSlice},
    {"softplus_backward", kElements},
    {"sort", kChooses},
    {"topk", kChooses},
    {"zero", kChooses},
    {"zeros_like", kChooses},
});

constexpr std::array<std::string_view, 5> kUnset = {
    "aten::empty_like", "aten::new_empty", "aten::new_empty_strided", "aten::empty", "aten::empty_strided"};

// "aten::add_.Tensor" -> "add"; "aten::_foreach_add_.List" -> "add"; a quotient that is made an integer is
// another op than a quotient.
std::string_view key(std::string_view name) {
  if (name.starts_with("aten::div") && name.ends_with("_mode")) return "div_mode";
  if (name.starts_with("aten::")) name.remove_prefix(6);
  name = name.substr(0, name.find('.'));
  if (name.starts_with("_foreach_")) name.remove_prefix(9);
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

}  // namespace

const OpFamily* find_family(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpFamily*> map;
    for (const OpFamily& f : kFamilies) map.emplace(f.name, &f);
    return map;
  }();
  const auto found = table.find(key(name));
  return found == table.end() ? nullptr : found->second;
}

std::span<const OpFamily> families() {
  return kFamilies;
}

std::span<const EqualOp> equal_ops() {
  return kEqualOps;
}

bool is_pointwise(const Operator& op) {
  return op.handle.hasTag(at::Tag::pointwise) ||
         (op.name.starts_with("aten::_foreach_") && !op.name.starts_with("aten::_foreach_norm"));
}

bool is_known(const Operator& op) {
  if (op.composite || op.random || is_pointwise(op) || find_family(op.name) != nullptr) return true;
  const auto listed = [name = key(op.name)](const EqualOp& e) { return e.name == name; };
  return std::any_of(kEqualOps.begin(), kEqualOps.end(), listed);
}

bool leaves_unset(std::string_view name) {
  name = name.substr(0, name.find('.'));
  return std::find(kUnset.begin(), kUnset.end(), name) != kUnset.end();
}

}  // namespace lockstep::oracle
