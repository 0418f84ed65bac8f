// SPDX-License-Identifier: Apache-2.0
// The table of op templates.
#include "generators/ops/ops.h"

#include <deque>
#include <string>
#include <vector>

#include "engine/values/error.h"
#include "engine/values/text.h"
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// clang-format off
// The ops of a line differ in nothing but the name, and are of aten:: where they do not say.
constexpr OpTemplate kLines[] = {
    // Of one tensor.
    {"neg", kUnary, unary, kNumbers, kSame, kMoves | kSignsZero},
    {"abs", kUnary, unary, kNumbers, kSame, kExactDiff},
    {"relu", kUnary, unary, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"square", kUnary, unary, kFloats, kProduct, kDiff},
    {"sign sgn", kUnary, unary, kNumbers, kSame, kMoves},
    {"floor", kUnary, unary, kFloats, kSame, kMoves},
    {"ceil round trunc", kUnary, unary, kFloats, kSame, kMoves | kSignsZero},
    {"exp expm1 exp2 log log1p log2 sqrt rsqrt reciprocal sin cos tanh erf sigmoid",
     kUnary, unary, kNumbers, kNo, kDiff},
    {"acos acosh asin asinh atan atanh cosh erfc lgamma log10 sinc sinh tan",
     kUnary, unary, kNumbers, kNo, kDiff},
    {"celu frac hardsigmoid hardswish hardtanh logit mish nan_to_num silu softshrink",
     kUnary, unary, kFloats, kNo, kDiff},
    {"digamma i0", kUnary, unary, kFloats, kNo, kNoHistory},
    {"polygamma", kUnary, polygamma, kFloats, kNo, kDiff},
    {"threshold", kUnary, threshold, kFloats, kNo, kDiff},
    {"gelu", kUnary, gelu, kFloats, kNo, kDiff},
    {"softplus leaky_relu elu", kUnary, unary, kFloats, kNo, kDiff},
    {"logical_not", kUnary, unary, kAllDtypes, kOne},
    {"bitwise_not", kUnary, unary, kIntBool, kNo},
    {"isnan isinf isposinf isneginf isfinite", kUnary, unary, kNumbers, kOne},
    {"signbit", kUnary, unary, kNumbers, kNo},
    {"hardtanh_ hardswish_", kInPlace, unary, kFloats, kNo, kDiff},
    // Of two tensors.
    {"add.Tensor sub.Tensor", kBinary, binary, kNumbers, kAddition, kMoves},
    {"mul.Tensor", kBinary, binary, kNumbers, kProduct, kExactDiff | kSignsZero},
    {"div.Tensor", kBinary, binary, kNumbers, kNo, kDiff},
    {"div.Tensor_mode", kBinary, divide_rounding, kFloats, kNo},
    {"maximum minimum", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"atan2", kBinary, binary, kFloats, kNo, kDiff},
    {"fmax fmin", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"copysign.Tensor", kBinary, copysign, kFloats, kNo, kDiff},
    {"hypot logaddexp logaddexp2 xlogy.Tensor", kBinary, binary, kFloats, kNo, kDiff},
    {"floor_divide", kBinary, binary, kFloats, kNo, kNoHistory},
    {"nextafter", kBinary, alike, kHalves, kNo, kNoHistory},
    {"heaviside", kBinary, alike, kNumbers, kNo, kNoHistory},
    {"gcd bitwise_left_shift.Tensor bitwise_right_shift.Tensor", kBinary, binary, kI64, kNo},
    {"pow.Tensor_Tensor", kBinary, power_tensor, kWide, kNo, kDiff},
    {"remainder.Tensor", kBinary, binary, kFloats, kNo},
    {"logical_and logical_or logical_xor", kBinary, binary, kAllDtypes, kOne},
    {"bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", kBinary, binary, kIntBool, kNo},
    // Of a tensor and a number.
    {"add.Scalar sub.Scalar rsub.Scalar", kScalars, with_number, kNumbers, kAddition, kMoves},
    {"mul.Scalar", kScalars, with_number, kNumbers, kProduct, kMoves | kSignsZero},
    {"div.Scalar", kScalars, with_number, kNumbers, kNo, kDiff | kLinear},
    {"remainder.Scalar", kScalars, with_number, kNumbers, kNo},
    {"fmod.Scalar", kScalars, with_number, kFloats, kNo},
    {"pow.Tensor_Scalar", kScalars, power_number, kNumbers, kNo, kDiff},
    {"clamp", kScalars, clamp_numbers, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"clamp_min clamp_max", kScalars, with_number, kNumbers, kSame, kExactDiff | kOrdersZeros},
    // Comparisons.
    {"eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", kCompare, binary, kNumbers, kOne},
    {"eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", kCompare, with_number, kNumbers, kOne},
    // Of three tensors, and masks.
    {"where.self", kTernary, where, kNumbers, kSame, kExactDiff},
    {"where.ScalarOther", kTernary, where_scalar, kNumbers, kSame, kExactDiff},
    {"clamp.Tensor", kTernary, clamp_tensors, kNumbers, kSame, kDiff | kOrdersZeros},
    {"lerp.Scalar lerp.Tensor", kTernary, lerp, kFloats, kNo, kDiff},
    {"addcmul", kTernary, addc, kFloats, kProduct, kExactDiff},
    {"addcdiv", kTernary, addc, kFloats, kNo, kDiff},
    {"log_sigmoid_backward hardswish_backward", kTernary, alike, kFloats, kNo, kNoHistory},
    {"rrelu_with_noise_backward", kTernary, rrelu_backward, kFloats, kNo, kNoHistory},
    {"masked_fill.Scalar masked_fill.Tensor", kTernary, masked_fill, kNumbers, kSame, kExactDiff},
    // In place.
    {"neg_", kInPlace, unary, kNumbers, kSame, kMoves | kSignsZero},
    {"abs_", kInPlace, unary, kNumbers, kSame, kExactDiff},
    {"relu_", kInPlace, unary, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"exp_ sqrt_ tanh_ sigmoid_ silu_ reciprocal_", kInPlace, unary, kFloats, kNo, kDiff},
    {"floor_", kInPlace, unary, kFloats, kSame, kMoves},
    {"add_.Tensor sub_.Tensor", kInPlace, binary, kNumbers, kAddition, kMoves},
    {"mul_.Tensor", kInPlace, binary, kNumbers, kProduct, kExactDiff | kSignsZero},
    {"div_.Tensor", kInPlace, binary, kFloats, kNo, kDiff},
    {"add_.Scalar sub_.Scalar", kInPlace, with_number, kNumbers, kAddition, kMoves},
    {"mul_.Scalar", kInPlace, with_number, kNumbers, kProduct, kMoves | kSignsZero},
    {"div_.Scalar", kInPlace, with_number, kFloats, kNo, kDiff | kLinear},
    {"pow_.Scalar", kInPlace, power_number, kNumbers, kNo, kDiff},
    {"clamp_", kInPlace, clamp_numbers, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"lerp_.Scalar", kInPlace, lerp, kFloats, kNo, kDiff},
    {"addcmul_", kInPlace, addc, kFloats, kProduct, kExactDiff},
    {"addcdiv_", kInPlace, addc, kFloats, kNo, kDiff},
    {"masked_fill_.Scalar", kInPlace, masked_fill, kNumbers, kSame, kExactDiff},
    {"logical_and_", kInPlace, binary, kBool, kOne},
    {"eq_.Scalar", kInPlace, with_number, kNumbers, kOne},
    {"copy_", kInPlace, copy_into, kAllDtypes, kSame, kMoves},
    {"fill_.Scalar", kInPlace, fill_number, kNumbers, kSame, kMoves},
    {"zero_", kInPlace, fill_number, kAllDtypes, kSame, kMoves},
    {"t_", kInPlace, transpose, kAllDtypes, kSame, kMoves},
    {"tril_", kInPlace, triangle, kNumbers, kSame, kMoves},
    {"scatter_.src scatter_add_", kInPlace, scatter, kNumbers, kSame, kExactDiff},
    // Lists.
    {"_foreach_add.List _foreach_sub.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"_foreach_mul.List", kLists, list_binary, kFloats, kProduct, kExactDiff | kSignsZero},
    {"_foreach_div.List", kLists, list_binary, kFloats, kNo, kDiff},
    {"_foreach_add.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"_foreach_mul.Scalar", kLists, list_number, kFloats, kProduct, kMoves | kSignsZero},
    {"_foreach_div.Scalar", kLists, list_number, kFloats, kNo, kDiff | kLinear},
    {"_foreach_mul.ScalarList", kLists, list_numbers, kFloats, kProduct, kMoves | kSignsZero},
    {"_foreach_mul.Tensor", kLists, list_tensor, kFloats, kProduct, kSignsZero},
    {"_foreach_neg", kLists, list_unary, kFloats, kSame, kMoves | kSignsZero},
    {"_foreach_sqrt", kLists, list_unary, kFloats, kNo, kDiff},
    {"_foreach_norm.Scalar", kLists, list_norm, kFloats, kNo, kDiff},
    {"_foreach_addcmul.Scalar _foreach_addcdiv.Scalar _foreach_lerp.Scalar",
     kLists, list_ternary, kFloats, kNo, kDiff},
    {"_foreach_maximum.List", kLists, list_binary, kFloats, kSame, kOrdersZeros},
    {"_foreach_add_.List _foreach_sub_.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"_foreach_mul_.List", kLists, list_binary, kFloats, kProduct, kExactDiff | kSignsZero},
    {"_foreach_add_.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"_foreach_mul_.Scalar", kLists, list_number, kFloats, kProduct, kMoves | kSignsZero},
    {"_foreach_div_.ScalarList", kLists, list_numbers, kFloats, kNo, kDiff | kLinear},
    {"_foreach_sqrt_", kLists, list_unary, kFloats, kNo, kDiff},
    {"_foreach_neg_", kLists, list_unary, kFloats, kSame, kMoves | kSignsZero},
    {"_foreach_zero_", kLists, list_unary, kFloats, kSame, kMoves},
    {"_foreach_addcmul_.Scalar _foreach_addcdiv_.Scalar _foreach_addcdiv_.ScalarList _foreach_lerp_.Scalar",
     kLists, list_ternary, kFloats, kNo, kDiff},
    // Reductions.
    {"sum", kReductions, reduce_all, kAllDtypes, Grow::kCount, kMoves},
    {"sum.dim_IntList", kReductions, reduce_dims, kAllDtypes, Grow::kCount, kMoves},
    {"mean", kReductions, reduce_all, kFloats, Grow::kMean, kMoves},
    {"mean.dim", kReductions, reduce_dims, kFloats, Grow::kMean, kMoves},
    {"prod", kReductions, reduce_all, kNumbers, Grow::kPower, kSignsZero},
    {"prod.dim_int", kReductions, reduce_dim, kNumbers, Grow::kPower, kDiff | kSignsZero},
    {"amax amin", kReductions, reduce_dims, kNumbers, kSame, kDiff | kOrdersZeros},
    {"max min", kReductions, reduce_all, kNumbers, kSame, kDiff | kOrdersZeros},
    {"max.dim min.dim", kReductions, reduce_dim, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"argmax argmin", kReductions, reduce_dim, kNumbers, kSame},
    {"any", kReductions, reduce_all, kAllDtypes, kOne},
    {"any.dim", kReductions, reduce_dim, kAllDtypes, kOne},
    {"all", kReductions, reduce_all, kAllDtypes, kOne},
    {"all.dim", kReductions, reduce_dim, kAllDtypes, kOne},
    {"norm.Scalar norm.ScalarOpt_dim", kReductions, norm, kFloats, kNo, kDiff},
    {"var.correction std.correction var_mean.correction", kReductions, variance, kFloats, kNo, kDiff},
    {"linalg_vector_norm", kReductions, vector_norm, kFloats, kNo, kDiff},
    {"logsumexp", kReductions, reduce_dims, kFloats, kNo, kDiff},
    {"cumsum", kReductions, scan, kNumbers, Grow::kCount, kMoves},
    {"diff", kReductions, differences, kFloats, kNo, kDiff},
    {"trapezoid.dx cumulative_trapezoid.dx", kReductions, trapezoid, kFloats, kNo, kDiff},
    {"corrcoef", kReductions, correlation, kFloats, kNo, kDiff},
    {"cumprod", kReductions, scan, kNumbers, kNo, kNoHistory},
    {"sort sort.stable", kReductions, sort, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"topk", kReductions, topk, kNumbers, kSame, kExactDiff | kOrdersZeros},
    // Products of matrices.
    {"mm", kMatmul, mm, kNumbers, kProduct, kExactDiff},
    {"bmm", kMatmul, bmm, kFloats, kProduct, kExactDiff},
    {"addmm", kMatmul, addmm, kFloats, kProduct, kExactDiff},
    {"baddbmm", kMatmul, baddbmm, kFloats, kProduct, kExactDiff},
    {"dot", kMatmul, dot, kNumbers, kProduct, kExactDiff},
    {"mv", kMatmul, mv, kFloats, kProduct, kExactDiff},
    {"linear", kMatmul, linear, kFloats, kProduct, kExactDiff},
    {"matmul", kMatmul, matmul, kFloats, kProduct, kExactDiff},
    // Views.
    {"view reshape _unsafe_view", kViews, reshape, kAllDtypes, kSame, kMoves},
    {"flatten.using_ints", kViews, flatten, kAllDtypes, kSame, kMoves},
    {"unflatten.int", kViews, unflatten, kAllDtypes, kSame, kMoves},
    {"permute", kViews, permute, kAllDtypes, kSame, kMoves},
    {"transpose.int t", kViews, transpose, kAllDtypes, kSame, kMoves},
    {"expand", kViews, expand, kAllDtypes, kSame, kMoves},
    {"squeeze squeeze.dim squeeze.dims", kViews, squeeze, kAllDtypes, kSame, kMoves},
    {"unsqueeze", kViews, unsqueeze, kAllDtypes, kSame, kMoves},
    {"slice.Tensor narrow", kViews, slice, kAllDtypes, kSame, kMoves},
    {"select.int", kViews, select, kAllDtypes, kSame, kMoves},
    {"split.Tensor split_with_sizes chunk unbind.int", kViews, split, kAllDtypes, kSame, kMoves},
    {"alias detach positive", kViews, alias, kAllDtypes, kSame, kMoves},
    // On one device it is its operand itself, as nobody but torch.tensor asks for it.
    {"lift_fresh", kViews, alias, kAllDtypes, kSame, kNoHistory},
    {"as_strided", kViews, as_strided, kAllDtypes, kSame, kMoves},
    {"diagonal", kViews, diagonal, kAllDtypes, kSame, kMoves},
    {"lockstep::detach", kViews, own_detach, kAllDtypes, kSame, kMoves},
    // By index, and joining.
    {"index_select", kIndexing, index_select, kNumbers, kSame, kMoves},
    {"index.Tensor", kIndexing, index, kAllDtypes, kSame, kExactDiff},
    {"nonzero masked_select", kIndexing, by_values, kAllDtypes, kSame, kNoHistory},
    {"index_put", kIndexing, index_put, kNumbers, kAddition, kExactDiff},
    {"index_fill.int_Scalar index_fill.int_Tensor", kIndexing, index_fill, kNumbers, kSame, kExactDiff},
    {"gather", kIndexing, gather, kNumbers, kSame, kExactDiff},
    {"scatter.src scatter.value scatter_add", kIndexing, scatter, kNumbers, kSame, kExactDiff},
    {"embedding", kIndexing, embedding, kFloats, kSame, kExactDiff},
    {"cat", kIndexing, cat, kAllDtypes, kSame, kMoves},
    {"stack", kIndexing, stack, kAllDtypes, kSame, kMoves},
    {"constant_pad_nd", kIndexing, pad, kAllDtypes, kSame, kMoves},
    {"roll", kIndexing, roll, kAllDtypes, kSame, kMoves},
    {"flip", kIndexing, flip, kAllDtypes, kSame, kMoves},
    {"tril triu", kIndexing, triangle, kNumbers, kSame, kMoves},
    // Of networks.
    {"softmax.int log_softmax.int _softmax _log_softmax", kNeural, softmax, kFloats, kNo, kDiff},
    {"nll_loss", kNeural, nll_loss, kFloats, kNo, kDiff},
    {"cross_entropy_loss", kNeural, cross_entropy, kFloats, kNo, kDiff},
    {"mse_loss", kNeural, mse_loss, kFloats, kNo, kDiff},
    {"max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d", kNeural, pool, kFloats, kNo, kDiff},
    {"layer_norm", kNeural, layer_norm, kFloats, kNo, kDiff},
    {"rms_norm _fused_rms_norm", kNeural, rms_norm, kFloats, kNo, kDiff},
    {"scaled_dot_product_attention", kNeural, attention, kFloats, kNo, kDiff},
    {"conv1d conv2d", kNeural, convolution, kFloats, kNo, kDiff},
    {"max_pool1d_with_indices", kNeural, pool_signal, kFloats, kNo, kDiff},
    // Random.
    {"uniform_ normal_", kRandomOps, fill_random, kFloats, kNo},
    {"bernoulli_.float", kRandomOps, fill_random, kFloats, kSame, kMoves},
    {"normal.Tensor_float normal.Tensor_Tensor", kRandomOps, normal_of, kFloats, kNo, kDiff},
    {"normal.float_Tensor", kRandomOps, normal_of, kFloats, kNo},
    {"rrelu", kRandomOps, rrelu, kFloats, kNo, kDiff},
    {"rand_like randn_like", kRandomOps, like, kFloats},
    {"randint_like randint_like.low_dtype", kRandomOps, like, kWide | kI64, kSame},
    {"native_dropout dropout", kRandomOps, dropout, kFloats, kProduct, kExactDiff},
    // Filled like another.
    {"zeros_like ones_like", kFactories, like, kAllDtypes, kOne},
    {"new_zeros new_ones new_full new_empty_strided", kFactories, new_tensor, kAllDtypes, kOne},
    {"full_like", kFactories, like, kNumbers, kOne},
    // Copies and casts.
    {"clone contiguous lift_fresh_copy", kCopies, alias, kAllDtypes, kSame, kMoves},
    {"_to_copy to.dtype", kCopies, cast, kAllDtypes, kSame, kMoves},
    // blocks.cpp
    {"optim::quantize_tiles", kNeural, quantize_tiles, kFloats, kNo, kNoHistory},
    {"optim::dequantize_tiles", kNeural, dequantize_tiles, kFloats, kNo, kNoHistory},
    {"optim::quantize_int8", kNeural, quantize_int8, kFloats, kNo, kNoHistory},
    {"optim::dequantize_int8", kNeural, dequantize_int8, kFloats, kNo, kNoHistory},
    {"optim::newton_schulz", kMatmul, newton_schulz, kFloats, kNo, kNoHistory},
    // experts.cpp
    {"experts::grouped_linear", kMatmul, grouped_linear, kFloats, kProduct, kExactDiff},
    {"experts::permute_rows", kIndexing, permute_rows, kFloats, kSame, kExactDiff},
};
// clang-format on

}  // namespace

bool OpTemplate::allowed(const Settings& settings, bool before_backward) const {
  if (!(settings.families & family)) return false;
  if (!settings.integer_lane) return true;
  if (grow == Grow::kInexact) return false;
  return !(settings.backward && before_backward && (traits & kDiff)) || (traits & kExactBackward);
}

std::span<const OpTemplate> op_templates() {
  static std::deque<std::string> names;
  static const auto all = [] {
    std::vector<OpTemplate> list;
    const auto add = [&](const OpTemplate& line, uint32_t traits) {
      for (const auto name : lockstep::split(line.op, ' ')) {
        const bool own = name.find("::") != std::string_view::npos;
        auto& op = list.emplace_back(line);
        op.op = names.emplace_back(concat(own ? "" : "aten::", name)).c_str();
        op.traits |= traits;
      }
    };
    for (const auto& line : kLines) add(line, kPlain);
    for (const auto& line : overload_lines()) add(line, kSeldom);
    return list;
  }();
  return all;
}

}  // namespace lockstep::generators
