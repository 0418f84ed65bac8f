// SPDX-License-Identifier: Apache-2.0
// The table of op templates.
#include "generators/ops/ops.h"

#include "engine/values/error.h"
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

constexpr auto kNo = Grow::kInexact;
constexpr auto kSame = Grow::kSame;
constexpr auto kAddition = Grow::kSum;
constexpr auto kProduct = Grow::kProduct;
constexpr auto kOne = Grow::kOne;
constexpr uint32_t kIntBool = kI64 | kBool;
constexpr uint32_t kExactDiff = kDiff | kExactBackward;

// clang-format off
constexpr OpTemplate kTemplates[] = {
    // Of one tensor.
    {"aten::neg", kUnary, unary, kNumbers, kSame, kMoves | kSignsZero},
    {"aten::abs", kUnary, unary, kNumbers, kSame, kExactDiff},
    {"aten::relu", kUnary, unary, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::square", kUnary, unary, kFloats, kProduct, kDiff},
    {"aten::sign", kUnary, unary, kNumbers, kSame, kMoves},
    {"aten::floor", kUnary, unary, kFloats, kSame, kMoves},
    {"aten::ceil", kUnary, unary, kFloats, kSame, kMoves | kSignsZero},
    {"aten::round", kUnary, unary, kFloats, kSame, kMoves | kSignsZero},
    {"aten::trunc", kUnary, unary, kFloats, kSame, kMoves | kSignsZero},
    {"aten::exp", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::expm1", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::exp2", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::log", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::log1p", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::log2", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::sqrt", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::rsqrt", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::reciprocal", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::sin", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::cos", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::tanh", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::erf", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::sigmoid", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::silu", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::gelu", kUnary, gelu, kFloats, kNo, kDiff},
    {"aten::softplus", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::leaky_relu", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::elu", kUnary, unary, kFloats, kNo, kDiff},
    {"aten::logical_not", kUnary, unary, kAllDtypes, kOne},
    {"aten::bitwise_not", kUnary, unary, kIntBool, kNo},
    {"aten::isnan", kUnary, unary, kNumbers, kOne},
    // Of two tensors.
    {"aten::add.Tensor", kBinary, binary, kNumbers, kAddition, kMoves},
    {"aten::sub.Tensor", kBinary, binary, kNumbers, kAddition, kMoves},
    {"aten::mul.Tensor", kBinary, binary, kNumbers, kProduct, kExactDiff | kSignsZero},
    {"aten::div.Tensor", kBinary, binary, kFloats, kNo, kDiff},
    {"aten::div.Tensor_mode", kBinary, divide_rounding, kFloats, kNo},
    {"aten::maximum", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::minimum", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::atan2", kBinary, binary, kFloats, kNo, kDiff},
    {"aten::pow.Tensor_Tensor", kBinary, power_tensor, kWide, kNo, kDiff},
    {"aten::remainder.Tensor", kBinary, binary, kFloats, kNo},
    {"aten::logical_and", kBinary, binary, kAllDtypes, kOne},
    {"aten::logical_or", kBinary, binary, kAllDtypes, kOne},
    {"aten::logical_xor", kBinary, binary, kAllDtypes, kOne},
    {"aten::bitwise_and.Tensor", kBinary, binary, kIntBool, kNo},
    {"aten::bitwise_or.Tensor", kBinary, binary, kIntBool, kNo},
    {"aten::bitwise_xor.Tensor", kBinary, binary, kIntBool, kNo},
    // Of a tensor and a number.
    {"aten::add.Scalar", kScalars, with_number, kNumbers, kAddition, kMoves},
    {"aten::sub.Scalar", kScalars, with_number, kNumbers, kAddition, kMoves},
    {"aten::rsub.Scalar", kScalars, with_number, kNumbers, kAddition, kMoves},
    {"aten::mul.Scalar", kScalars, with_number, kNumbers, kProduct, kMoves | kSignsZero},
    {"aten::div.Scalar", kScalars, with_number, kFloats, kNo, kDiff | kLinear},
    {"aten::remainder.Scalar", kScalars, with_number, kNumbers, kNo},
    {"aten::fmod.Scalar", kScalars, with_number, kFloats, kNo},
    {"aten::pow.Tensor_Scalar", kScalars, power_number, kNumbers, kNo, kDiff},
    {"aten::clamp", kScalars, clamp_numbers, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::clamp_min", kScalars, with_number, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::clamp_max", kScalars, with_number, kNumbers, kSame, kExactDiff | kOrdersZeros},
    // Comparisons.
    {"aten::eq.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::ne.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::lt.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::le.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::gt.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::ge.Tensor", kCompare, binary, kNumbers, kOne},
    {"aten::eq.Scalar", kCompare, with_number, kNumbers, kOne},
    {"aten::ne.Scalar", kCompare, with_number, kNumbers, kOne},
    {"aten::lt.Scalar", kCompare, with_number, kNumbers, kOne},
    {"aten::le.Scalar", kCompare, with_number, kNumbers, kOne},
    {"aten::gt.Scalar", kCompare, with_number, kNumbers, kOne},
    {"aten::ge.Scalar", kCompare, with_number, kNumbers, kOne},
    // Of three tensors, and masks.
    {"aten::where.self", kTernary, where, kNumbers, kSame, kExactDiff},
    {"aten::where.ScalarOther", kTernary, where_scalar, kNumbers, kSame, kExactDiff},
    {"aten::clamp.Tensor", kTernary, clamp_tensors, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::lerp.Scalar", kTernary, lerp, kFloats, kNo, kDiff},
    {"aten::lerp.Tensor", kTernary, lerp, kFloats, kNo, kDiff},
    {"aten::addcmul", kTernary, addc, kFloats, kProduct, kExactDiff},
    {"aten::addcdiv", kTernary, addc, kFloats, kNo, kDiff},
    {"aten::masked_fill.Scalar", kTernary, masked_fill, kNumbers, kSame, kExactDiff},
    {"aten::masked_fill.Tensor", kTernary, masked_fill, kNumbers, kSame, kExactDiff},
    // In place.
    {"aten::neg_", kInPlace, unary, kNumbers, kSame, kMoves | kSignsZero},
    {"aten::abs_", kInPlace, unary, kNumbers, kSame, kExactDiff},
    {"aten::relu_", kInPlace, unary, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::exp_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::sqrt_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::tanh_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::sigmoid_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::silu_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::reciprocal_", kInPlace, unary, kFloats, kNo, kDiff},
    {"aten::floor_", kInPlace, unary, kFloats, kSame, kMoves},
    {"aten::add_.Tensor", kInPlace, binary, kNumbers, kAddition, kMoves},
    {"aten::sub_.Tensor", kInPlace, binary, kNumbers, kAddition, kMoves},
    {"aten::mul_.Tensor", kInPlace, binary, kNumbers, kProduct, kExactDiff | kSignsZero},
    {"aten::div_.Tensor", kInPlace, binary, kFloats, kNo, kDiff},
    {"aten::add_.Scalar", kInPlace, with_number, kNumbers, kAddition, kMoves},
    {"aten::sub_.Scalar", kInPlace, with_number, kNumbers, kAddition, kMoves},
    {"aten::mul_.Scalar", kInPlace, with_number, kNumbers, kProduct, kMoves | kSignsZero},
    {"aten::div_.Scalar", kInPlace, with_number, kFloats, kNo, kDiff | kLinear},
    {"aten::pow_.Scalar", kInPlace, power_number, kNumbers, kNo, kDiff},
    {"aten::clamp_", kInPlace, clamp_numbers, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::lerp_.Scalar", kInPlace, lerp, kFloats, kNo, kDiff},
    {"aten::addcmul_", kInPlace, addc, kFloats, kProduct, kExactDiff},
    {"aten::addcdiv_", kInPlace, addc, kFloats, kNo, kDiff},
    {"aten::masked_fill_.Scalar", kInPlace, masked_fill, kNumbers, kSame, kExactDiff},
    {"aten::logical_and_", kInPlace, binary, kBool, kOne},
    {"aten::eq_.Scalar", kInPlace, with_number, kNumbers, kOne},
    {"aten::copy_", kInPlace, copy_into, kAllDtypes, kSame, kMoves},
    {"aten::fill_.Scalar", kInPlace, fill_number, kNumbers, kSame, kMoves},
    {"aten::zero_", kInPlace, fill_number, kAllDtypes, kSame, kMoves},
    {"aten::t_", kInPlace, transpose, kAllDtypes, kSame, kMoves},
    {"aten::tril_", kInPlace, triangle, kNumbers, kSame, kMoves},
    {"aten::scatter_.src", kInPlace, scatter, kNumbers, kSame, kExactDiff},
    {"aten::scatter_add_", kInPlace, scatter, kNumbers, kSame, kExactDiff},
    // Lists.
    {"aten::_foreach_add.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"aten::_foreach_sub.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"aten::_foreach_mul.List", kLists, list_binary, kFloats, kProduct, kExactDiff | kSignsZero},
    {"aten::_foreach_div.List", kLists, list_binary, kFloats, kNo, kDiff},
    {"aten::_foreach_add.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"aten::_foreach_mul.Scalar", kLists, list_number, kFloats, kProduct, kMoves | kSignsZero},
    {"aten::_foreach_div.Scalar", kLists, list_number, kFloats, kNo, kDiff | kLinear},
    {"aten::_foreach_mul.ScalarList", kLists, list_numbers, kFloats, kProduct, kMoves | kSignsZero},
    {"aten::_foreach_mul.Tensor", kLists, list_tensor, kFloats, kProduct, kSignsZero},
    {"aten::_foreach_neg", kLists, list_unary, kFloats, kSame, kMoves | kSignsZero},
    {"aten::_foreach_sqrt", kLists, list_unary, kFloats, kNo, kDiff},
    {"aten::_foreach_norm.Scalar", kLists, list_norm, kFloats, kNo, kDiff},
    {"aten::_foreach_addcmul.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_addcdiv.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_lerp.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_maximum.List", kLists, list_binary, kFloats, kSame, kOrdersZeros},
    {"aten::_foreach_add_.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"aten::_foreach_sub_.List", kLists, list_binary, kFloats, kAddition, kMoves},
    {"aten::_foreach_mul_.List", kLists, list_binary, kFloats, kProduct, kExactDiff | kSignsZero},
    {"aten::_foreach_add_.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"aten::_foreach_mul_.Scalar", kLists, list_number, kFloats, kProduct, kMoves | kSignsZero},
    {"aten::_foreach_div_.ScalarList", kLists, list_numbers, kFloats, kNo, kDiff | kLinear},
    {"aten::_foreach_sqrt_", kLists, list_unary, kFloats, kNo, kDiff},
    {"aten::_foreach_neg_", kLists, list_unary, kFloats, kSame, kMoves | kSignsZero},
    {"aten::_foreach_zero_", kLists, list_unary, kFloats, kSame, kMoves},
    {"aten::_foreach_addcmul_.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_addcdiv_.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_addcdiv_.ScalarList", kLists, list_ternary, kFloats, kNo, kDiff},
    {"aten::_foreach_lerp_.Scalar", kLists, list_ternary, kFloats, kNo, kDiff},
    // Reductions.
    {"aten::sum", kReductions, reduce_all, kAllDtypes, Grow::kCount, kMoves},
    {"aten::sum.dim_IntList", kReductions, reduce_dims, kAllDtypes, Grow::kCount, kMoves},
    {"aten::mean", kReductions, reduce_all, kFloats, Grow::kMean, kMoves},
    {"aten::mean.dim", kReductions, reduce_dims, kFloats, Grow::kMean, kMoves},
    {"aten::prod", kReductions, reduce_all, kNumbers, Grow::kPower, kSignsZero},
    {"aten::prod.dim_int", kReductions, reduce_dim, kNumbers, Grow::kPower, kDiff | kSignsZero},
    {"aten::amax", kReductions, reduce_dims, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::amin", kReductions, reduce_dims, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::max", kReductions, reduce_all, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::min", kReductions, reduce_all, kNumbers, kSame, kDiff | kOrdersZeros},
    {"aten::max.dim", kReductions, reduce_dim, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::min.dim", kReductions, reduce_dim, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::argmax", kReductions, reduce_dim, kNumbers, kSame},
    {"aten::argmin", kReductions, reduce_dim, kNumbers, kSame},
    {"aten::any", kReductions, reduce_all, kAllDtypes, kOne},
    {"aten::any.dim", kReductions, reduce_dim, kAllDtypes, kOne},
    {"aten::all", kReductions, reduce_all, kAllDtypes, kOne},
    {"aten::all.dim", kReductions, reduce_dim, kAllDtypes, kOne},
    {"aten::var.correction", kReductions, variance, kFloats, kNo, kDiff},
    {"aten::std.correction", kReductions, variance, kFloats, kNo, kDiff},
    {"aten::linalg_vector_norm", kReductions, vector_norm, kFloats, kNo, kDiff},
    {"aten::logsumexp", kReductions, reduce_dims, kFloats, kNo, kDiff},
    {"aten::cumsum", kReductions, scan, kNumbers, Grow::kCount, kMoves},
    {"aten::sort", kReductions, sort, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::sort.stable", kReductions, sort, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"aten::topk", kReductions, topk, kNumbers, kSame, kExactDiff | kOrdersZeros},
    // Products of matrices.
    {"aten::mm", kMatmul, mm, kNumbers, kProduct, kExactDiff},
    {"aten::bmm", kMatmul, bmm, kFloats, kProduct, kExactDiff},
    {"aten::addmm", kMatmul, addmm, kFloats, kProduct, kExactDiff},
    {"aten::baddbmm", kMatmul, baddbmm, kFloats, kProduct, kExactDiff},
    {"aten::dot", kMatmul, dot, kNumbers, kProduct, kExactDiff},
    {"aten::mv", kMatmul, mv, kFloats, kProduct, kExactDiff},
    {"aten::linear", kMatmul, linear, kFloats, kProduct, kExactDiff},
    {"aten::matmul", kMatmul, matmul, kFloats, kProduct, kExactDiff},
    // Views.
    {"aten::view", kViews, reshape, kAllDtypes, kSame, kMoves},
    {"aten::reshape", kViews, reshape, kAllDtypes, kSame, kMoves},
    {"aten::_unsafe_view", kViews, reshape, kAllDtypes, kSame, kMoves},
    {"aten::flatten.using_ints", kViews, flatten, kAllDtypes, kSame, kMoves},
    {"aten::unflatten.int", kViews, unflatten, kAllDtypes, kSame, kMoves},
    {"aten::permute", kViews, permute, kAllDtypes, kSame, kMoves},
    {"aten::transpose.int", kViews, transpose, kAllDtypes, kSame, kMoves},
    {"aten::t", kViews, transpose, kAllDtypes, kSame, kMoves},
    {"aten::expand", kViews, expand, kAllDtypes, kSame, kMoves},
    {"aten::squeeze", kViews, squeeze, kAllDtypes, kSame, kMoves},
    {"aten::squeeze.dim", kViews, squeeze, kAllDtypes, kSame, kMoves},
    {"aten::squeeze.dims", kViews, squeeze, kAllDtypes, kSame, kMoves},
    {"aten::unsqueeze", kViews, unsqueeze, kAllDtypes, kSame, kMoves},
    {"aten::slice.Tensor", kViews, slice, kAllDtypes, kSame, kMoves},
    {"aten::narrow", kViews, slice, kAllDtypes, kSame, kMoves},
    {"aten::select.int", kViews, select, kAllDtypes, kSame, kMoves},
    {"aten::split.Tensor", kViews, split, kAllDtypes, kSame, kMoves},
    {"aten::split_with_sizes", kViews, split, kAllDtypes, kSame, kMoves},
    {"aten::chunk", kViews, split, kAllDtypes, kSame, kMoves},
    {"aten::unbind.int", kViews, split, kAllDtypes, kSame, kMoves},
    {"aten::alias", kViews, alias, kAllDtypes, kSame, kMoves},
    {"aten::detach", kViews, alias, kAllDtypes, kSame, kMoves},
    {"lockstep::detach", kViews, own_detach, kAllDtypes, kSame, kMoves},
    // By index, and joining.
    {"aten::index_select", kIndexing, index_select, kNumbers, kSame, kMoves},
    {"aten::gather", kIndexing, gather, kNumbers, kSame, kExactDiff},
    {"aten::scatter.src", kIndexing, scatter, kNumbers, kSame, kExactDiff},
    {"aten::scatter.value", kIndexing, scatter, kNumbers, kSame, kExactDiff},
    {"aten::scatter_add", kIndexing, scatter, kNumbers, kSame, kExactDiff},
    {"aten::embedding", kIndexing, embedding, kFloats, kSame, kExactDiff},
    {"aten::cat", kIndexing, cat, kAllDtypes, kSame, kMoves},
    {"aten::stack", kIndexing, stack, kAllDtypes, kSame, kMoves},
    {"aten::tril", kIndexing, triangle, kNumbers, kSame, kMoves},
    {"aten::triu", kIndexing, triangle, kNumbers, kSame, kMoves},
    // Of networks.
    {"aten::softmax.int", kNeural, softmax, kFloats, kNo, kDiff},
    {"aten::log_softmax.int", kNeural, softmax, kFloats, kNo, kDiff},
    {"aten::_softmax", kNeural, softmax, kFloats, kNo, kDiff},
    {"aten::_log_softmax", kNeural, softmax, kFloats, kNo, kDiff},
    {"aten::nll_loss", kNeural, nll_loss, kFloats, kNo, kDiff},
    {"aten::cross_entropy_loss", kNeural, cross_entropy, kFloats, kNo, kDiff},
    {"aten::layer_norm", kNeural, layer_norm, kFloats, kNo, kDiff},
    {"aten::rms_norm", kNeural, rms_norm, kFloats, kNo, kDiff},
    {"aten::scaled_dot_product_attention", kNeural, attention, kWide, kNo, kDiff},
    {"aten::conv2d", kNeural, conv2d, kWide, kNo, kDiff},
    // Random.
    {"aten::uniform_", kRandomOps, fill_random, kFloats, kNo},
    {"aten::normal_", kRandomOps, fill_random, kFloats, kNo},
    {"aten::bernoulli_.float", kRandomOps, fill_random, kFloats, kSame, kMoves},
    {"aten::rand_like", kRandomOps, like, kFloats},
    {"aten::randn_like", kRandomOps, like, kFloats},
    {"aten::randint_like", kRandomOps, like, kWide | kI64, kSame},
    {"aten::randint_like.low_dtype", kRandomOps, like, kWide | kI64, kSame},
    {"aten::native_dropout", kRandomOps, dropout, kFloats, kProduct, kExactDiff},
    {"aten::dropout", kRandomOps, dropout, kFloats, kProduct, kExactDiff},
    // Filled like another.
    {"aten::zeros_like", kFactories, like, kAllDtypes, kOne},
    {"aten::ones_like", kFactories, like, kAllDtypes, kOne},
    {"aten::full_like", kFactories, like, kNumbers, kOne},
    // Copies and casts.
    {"aten::clone", kCopies, alias, kAllDtypes, kSame, kMoves},
    {"aten::contiguous", kCopies, alias, kAllDtypes, kSame, kMoves},
    {"aten::_to_copy", kCopies, cast, kAllDtypes, kSame, kMoves},
    {"aten::to.dtype", kCopies, cast, kAllDtypes, kSame, kMoves},
};
// clang-format on

}  // namespace

bool OpTemplate::in_place() const {
  const std::string_view name(op);
  return name[std::min(name.find('.'), name.size()) - 1] == '_';
}

bool OpTemplate::allowed(const Settings& settings, bool before_backward) const {
  if (!(settings.families & family)) return false;
  if (!settings.integer_lane) return true;
  if (grow == Grow::kInexact) return false;
  return !(settings.backward && before_backward && (traits & kDiff)) || (traits & kExactBackward);
}

std::span<const OpTemplate> op_templates() {
  return kTemplates;
}

const OpTemplate& find_template(std::string_view op) {
  for (const auto& entry : kTemplates)
    if (op == entry.op) return entry;
  throw Error(concat("[generate] no template makes ", op, "; add one to generators/ops/ops.cpp"));
}

}  // namespace lockstep::generators
