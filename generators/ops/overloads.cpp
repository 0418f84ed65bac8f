// SPDX-License-Identifier: Apache-2.0
// The second table of op templates: other overloads of ops that the first one has, in place or of numbers and
// lists. Together they are drawn about as often as one in three of the others.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// clang-format off
constexpr OpTemplate kLines[] = {
    // Of one tensor.
    {"erfinv", kUnary, unary, kWide, kNo, kDiff},
    {"round.decimals round_.decimals", kUnary, round_decimals, kFloats, kNo, kDiff},
    // Of two tensors.
    {"fmod.Tensor rsub.Tensor", kBinary, binary, kFloats, kNo, kDiff},
    {"max.other min.other", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"clamp_max.Tensor clamp_min.Tensor", kBinary, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    // Of a tensor and a number.
    {"copysign.Scalar floor_divide.Scalar xlogy.Scalar_Other",
     kScalars, with_number, kFloats, kNo, kNoHistory},
    {"div.Scalar_mode", kScalars, divide_number, kFloats, kNo},
    {"bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar", kScalars, with_number, kI64, kNo},
    {"bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar", kScalars, shift_number, kI64, kNo},
    {"bitwise_and.Scalar_Tensor bitwise_or.Scalar_Tensor bitwise_xor.Scalar_Tensor",
     kScalars, of_number, kI64, kNo},
    {"remainder.Scalar_Tensor xlogy.Scalar_Self", kScalars, of_number, kFloats, kNo, kNoHistory},
    // Of three tensors, and masks.
    {"where.Scalar where.ScalarSelf", kTernary, where_scalar, kNumbers, kNo, kNoHistory},
    // In place.
    {"ceil_ round_ trunc_", kInPlace, unary, kFloats, kSame, kMoves | kSignsZero},
    {"sign_ sgn_", kInPlace, unary, kFloats, kSame, kMoves},
    {"acos_ acosh_ asin_ asinh_ atan_ atanh_ celu_ cos_ cosh_ elu_ erf_ erfc_ exp2_ expm1_ "
     "frac_ gelu_",
     kInPlace, unary, kFloats, kNo, kDiff},
    {"hardsigmoid_ leaky_relu_ lgamma_ log10_ log1p_ log2_ log_ logit_ mish_ nan_to_num_ "
     "rsqrt_ sin_ sinc_ sinh_ tan_",
     kInPlace, unary, kFloats, kNo, kDiff},
    {"digamma_ i0_", kInPlace, unary, kFloats, kNo, kNoHistory},
    {"polygamma_", kInPlace, polygamma, kFloats, kNo, kDiff},
    {"threshold_", kInPlace, threshold, kFloats, kNo, kDiff},
    {"bitwise_not_", kInPlace, unary, kIntBool, kNo},
    {"div_.Tensor_mode", kInPlace, divide_rounding, kFloats, kNo},
    {"atan2_ hypot_ xlogy_.Tensor", kInPlace, binary, kFloats, kNo, kDiff},
    {"copysign_.Tensor", kInPlace, copysign, kFloats, kNo, kDiff},
    {"floor_divide_.Tensor fmod_.Tensor remainder_.Tensor", kInPlace, binary, kFloats, kNo, kNoHistory},
    {"heaviside_", kInPlace, alike, kNumbers, kNo, kNoHistory},
    {"nextafter_", kInPlace, alike, kHalves, kNo, kNoHistory},
    {"pow_.Tensor", kInPlace, power_tensor, kWide, kNo, kDiff},
    {"gcd_ bitwise_left_shift_.Tensor bitwise_right_shift_.Tensor", kInPlace, binary, kI64, kNo},
    {"bitwise_and_.Tensor bitwise_or_.Tensor bitwise_xor_.Tensor", kInPlace, binary, kIntBool, kNo},
    {"clamp_max_.Tensor clamp_min_.Tensor", kInPlace, binary, kNumbers, kSame, kDiff | kOrdersZeros},
    {"eq_.Tensor ne_.Tensor lt_.Tensor le_.Tensor gt_.Tensor ge_.Tensor",
     kInPlace, binary, kNumbers, kNo, kNoHistory},
    {"clamp_.Tensor", kInPlace, clamp_tensors, kNumbers, kSame, kDiff | kOrdersZeros},
    {"clamp_min_ clamp_max_", kInPlace, with_number, kNumbers, kSame, kExactDiff | kOrdersZeros},
    {"copysign_.Scalar floor_divide_.Scalar fmod_.Scalar remainder_.Scalar xlogy_.Scalar_Other",
     kInPlace, with_number, kFloats, kNo, kNoHistory},
    {"div_.Scalar_mode", kInPlace, divide_number, kFloats, kNo},
    {"bitwise_and_.Scalar bitwise_or_.Scalar bitwise_xor_.Scalar", kInPlace, with_number, kI64, kNo},
    {"bitwise_left_shift_.Tensor_Scalar bitwise_right_shift_.Tensor_Scalar",
     kInPlace, shift_number, kI64, kNo},
    {"lerp_.Tensor", kInPlace, lerp, kFloats, kNo, kDiff},
    {"logical_xor_", kInPlace, binary, kBool, kOne},
    {"ne_.Scalar lt_.Scalar le_.Scalar gt_.Scalar ge_.Scalar", kInPlace, with_number, kNumbers, kOne},
    {"fill.Scalar fill.Tensor", kFactories, fill_copy, kNumbers, kSame},
    {"fill_.Tensor", kInPlace, fill_copy, kNumbers, kSame},
    {"triu_", kInPlace, triangle, kNumbers, kSame, kMoves},
    {"scatter_.value", kInPlace, scatter, kNumbers, kSame, kExactDiff},
    {"scatter_.reduce scatter_.value_reduce", kInPlace, scatter, kFloats, kNo, kNoHistory},
    {"index_put_", kInPlace, index_put, kNumbers, kAddition, kExactDiff},
    {"index_fill_.int_Scalar index_fill_.int_Tensor", kInPlace, index_fill, kNumbers, kSame, kExactDiff},
    {"cumsum_", kInPlace, scan, kNumbers, Grow::kCount, kMoves},
    {"cumprod_", kInPlace, scan, kNumbers, kNo, kNoHistory},
    {"addmm_", kInPlace, addmm, kFloats, kProduct, kExactDiff},
    {"baddbmm_", kInPlace, baddbmm, kFloats, kProduct, kExactDiff},
    // Lists.
    {"_foreach_minimum.List _foreach_clamp_max.List _foreach_clamp_min.List",
     kLists, list_binary, kFloats, kSame, kOrdersZeros},
    {"_foreach_pow.List", kLists, list_binary, kWide, kNo, kNoHistory},
    {"_foreach_sub.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"_foreach_clamp_max.Scalar _foreach_clamp_min.Scalar _foreach_maximum.Scalar "
     "_foreach_minimum.Scalar",
     kLists, list_number, kFloats, kNo, kNoHistory},
    {"_foreach_pow.Scalar", kLists, list_number, kFloats, kNo, kNoHistory},
    {"_foreach_pow.ScalarAndTensor", kLists, list_power_of, kFloats, kNo, kNoHistory},
    {"_foreach_add.ScalarList _foreach_sub.ScalarList", kLists, list_numbers, kFloats, kAddition, kMoves},
    {"_foreach_div.ScalarList", kLists, list_numbers, kFloats, kNo, kDiff | kLinear},
    {"_foreach_clamp_max.ScalarList _foreach_clamp_min.ScalarList _foreach_maximum.ScalarList "
     "_foreach_minimum.ScalarList _foreach_pow.ScalarList",
     kLists, list_numbers, kFloats, kNo, kNoHistory},
    {"_foreach_add.Tensor", kLists, list_tensor, kFloats, kAddition, kNoHistory},
    {"_foreach_div.Tensor", kLists, list_tensor, kFloats, kNo, kNoHistory},
    {"_foreach_abs _foreach_acos _foreach_asin _foreach_atan _foreach_ceil _foreach_cos "
     "_foreach_cosh _foreach_erf _foreach_erfc _foreach_exp _foreach_expm1 _foreach_floor "
     "_foreach_frac _foreach_lgamma _foreach_log _foreach_log10 _foreach_log1p _foreach_log2 "
     "_foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign "
     "_foreach_sin _foreach_sinh _foreach_tan _foreach_tanh _foreach_trunc",
     kLists, list_unary, kFloats, kNo, kDiff},
    {"_foreach_max", kLists, list_unary, kFloats, kNo, kNoHistory},
    {"_foreach_addcmul.ScalarList _foreach_addcdiv.ScalarList _foreach_lerp.ScalarList "
     "_foreach_lerp.List",
     kLists, list_ternary, kFloats, kNo, kDiff},
    {"_foreach_div_.List", kLists, list_binary, kFloats, kNo, kDiff},
    {"_foreach_copy_", kLists, list_binary, kFloats, kNo, kDiff},
    {"_foreach_maximum_.List _foreach_minimum_.List _foreach_clamp_max_.List "
     "_foreach_clamp_min_.List",
     kLists, list_binary, kFloats, kSame, kOrdersZeros},
    {"_foreach_pow_.List", kLists, list_binary, kWide, kNo, kNoHistory},
    {"_foreach_sub_.Scalar", kLists, list_number, kFloats, kAddition, kMoves},
    {"_foreach_div_.Scalar", kLists, list_number, kFloats, kNo, kDiff | kLinear},
    {"_foreach_clamp_max_.Scalar _foreach_clamp_min_.Scalar _foreach_maximum_.Scalar "
     "_foreach_minimum_.Scalar _foreach_pow_.Scalar",
     kLists, list_number, kFloats, kNo, kNoHistory},
    {"_foreach_add_.ScalarList _foreach_sub_.ScalarList", kLists, list_numbers, kFloats, kAddition, kMoves},
    {"_foreach_mul_.ScalarList", kLists, list_numbers, kFloats, kProduct, kMoves | kSignsZero},
    {"_foreach_clamp_max_.ScalarList _foreach_clamp_min_.ScalarList "
     "_foreach_maximum_.ScalarList _foreach_minimum_.ScalarList _foreach_pow_.ScalarList",
     kLists, list_numbers, kFloats, kNo, kNoHistory},
    {"_foreach_mul_.Tensor", kLists, list_tensor, kFloats, kProduct, kSignsZero},
    {"_foreach_add_.Tensor", kLists, list_tensor, kFloats, kAddition, kNoHistory},
    {"_foreach_div_.Tensor", kLists, list_tensor, kFloats, kNo, kNoHistory},
    {"_foreach_abs_ _foreach_acos_ _foreach_asin_ _foreach_atan_ _foreach_ceil_ _foreach_cos_ "
     "_foreach_cosh_ _foreach_erf_ _foreach_erfc_ _foreach_exp_ _foreach_expm1_ "
     "_foreach_floor_ _foreach_frac_ _foreach_lgamma_ _foreach_log10_ _foreach_log1p_ "
     "_foreach_log2_ _foreach_log_ _foreach_reciprocal_ _foreach_round_ _foreach_rsqrt_ "
     "_foreach_sigmoid_ _foreach_sign_ _foreach_sin_ _foreach_sinh_ _foreach_tan_ "
     "_foreach_tanh_ _foreach_trunc_",
     kLists, list_unary, kFloats, kNo, kDiff},
    {"_foreach_addcmul_.ScalarList _foreach_lerp_.ScalarList _foreach_lerp_.List",
     kLists, list_ternary, kFloats, kNo, kDiff},
    // Reductions.
    {"any.dims all.dims", kReductions, reduce_dims, kAllDtypes, kOne},
    {"std var var_mean", kReductions, reduce_all, kFloats, kNo, kDiff},
    {"std.dim var.dim var_mean.dim", kReductions, variance, kFloats, kNo, kDiff},
    // By index, and joining.
    {"scatter.reduce scatter.value_reduce", kIndexing, scatter, kFloats, kNo, kNoHistory},
    {"index_add", kIndexing, index_add, kNumbers, kSame, kExactDiff},
};
// clang-format on

}  // namespace

std::span<const OpTemplate> overload_lines() {
  return kLines;
}

}  // namespace lockstep::generators
