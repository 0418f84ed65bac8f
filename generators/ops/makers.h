// SPDX-License-Identifier: Apache-2.0
// The functions of the op templates, one file for each group, and what they share.
#pragma once
#include "generators/ops/ops.h"

namespace lockstep::generators {

using oracle::Arg;
using oracle::None;
using oracle::Ref;

// What stands in the columns of the tables.
constexpr auto kNo = Grow::kInexact;
constexpr auto kSame = Grow::kSame;
constexpr auto kAddition = Grow::kSum;
constexpr auto kProduct = Grow::kProduct;
constexpr auto kOne = Grow::kOne;
constexpr uint32_t kIntBool = kI64 | kBool;
constexpr uint32_t kExactDiff = kDiff | kExactBackward;
constexpr uint32_t kHalves = kWide | kBF16;  // where stock has no kernel for f16

// The lines of overloads.cpp.
std::span<const OpTemplate> overload_lines();
// The line of this overload. @pre there is one
const OpTemplate& template_of(std::string_view op);

// The Growth of a call by its template's rule; `count`: how many elements are reduced into one.
Growth grown(const Builder& b, const OpTemplate& op, const std::vector<Ref>& operands, int64_t count = 1);
// Appends the call with that Growth.
bool emit(Builder& b, const OpTemplate& op, std::vector<Arg> args, const std::vector<Ref>& operands,
          int64_t count = 1);

// An operand, or a writable one for an in-place op.
Ref first_operand(Builder& b, const OpTemplate& op, Want want);
// A number to compute with a tensor of this dtype: integral where the lane or the dtype asks for it.
Arg draw_number(Builder& b, c10::ScalarType dtype);
Magnitude magnitude_of(const Arg& number);
Shape broadcast(const Shape& a, const Shape& b);
int64_t draw_dim(Builder& b, int64_t ndim);  // sometimes counted from the end
oracle::Values indices_below(int64_t n);

// ops/pointwise.cpp
bool unary(Builder& b, const OpTemplate& op);
bool binary(Builder& b, const OpTemplate& op);
bool with_number(Builder& b, const OpTemplate& op);
bool power_number(Builder& b, const OpTemplate& op);
bool power_tensor(Builder& b, const OpTemplate& op);
bool divide_rounding(Builder& b, const OpTemplate& op);
bool clamp_numbers(Builder& b, const OpTemplate& op);
bool clamp_tensors(Builder& b, const OpTemplate& op);
bool where(Builder& b, const OpTemplate& op);
bool where_scalar(Builder& b, const OpTemplate& op);
bool lerp(Builder& b, const OpTemplate& op);
bool addc(Builder& b, const OpTemplate& op);
bool masked_fill(Builder& b, const OpTemplate& op);
bool gelu(Builder& b, const OpTemplate& op);
bool polygamma(Builder& b, const OpTemplate& op);
bool round_decimals(Builder& b, const OpTemplate& op);
bool of_number(Builder& b, const OpTemplate& op);
bool shift_number(Builder& b, const OpTemplate& op);
bool divide_number(Builder& b, const OpTemplate& op);
bool threshold(Builder& b, const OpTemplate& op);
bool copysign(Builder& b, const OpTemplate& op);
bool alike(Builder& b, const OpTemplate& op);
bool rrelu(Builder& b, const OpTemplate& op);
bool rrelu_backward(Builder& b, const OpTemplate& op);

// ops/blocks.cpp
bool quantize_tiles(Builder& b, const OpTemplate& op);
bool dequantize_tiles(Builder& b, const OpTemplate& op);
bool quantize_int8(Builder& b, const OpTemplate& op);
bool dequantize_int8(Builder& b, const OpTemplate& op);
bool newton_schulz(Builder& b, const OpTemplate& op);

// ops/experts.cpp
bool grouped_linear(Builder& b, const OpTemplate& op);
bool permute_rows(Builder& b, const OpTemplate& op);

// ops/reductions.cpp
bool reduce_all(Builder& b, const OpTemplate& op);
bool reduce_dims(Builder& b, const OpTemplate& op);
bool reduce_dim(Builder& b, const OpTemplate& op);
bool norm(Builder& b, const OpTemplate& op);
bool variance(Builder& b, const OpTemplate& op);
bool vector_norm(Builder& b, const OpTemplate& op);
bool scan(Builder& b, const OpTemplate& op);
bool differences(Builder& b, const OpTemplate& op);
bool trapezoid(Builder& b, const OpTemplate& op);
bool correlation(Builder& b, const OpTemplate& op);
bool sort(Builder& b, const OpTemplate& op);
bool topk(Builder& b, const OpTemplate& op);

// ops/matmul.cpp
bool mm(Builder& b, const OpTemplate& op);
bool bmm(Builder& b, const OpTemplate& op);
bool addmm(Builder& b, const OpTemplate& op);
bool baddbmm(Builder& b, const OpTemplate& op);
bool dot(Builder& b, const OpTemplate& op);
bool mv(Builder& b, const OpTemplate& op);
bool linear(Builder& b, const OpTemplate& op);
bool matmul(Builder& b, const OpTemplate& op);

// ops/views.cpp
bool reshape(Builder& b, const OpTemplate& op);
bool flatten(Builder& b, const OpTemplate& op);
bool unflatten(Builder& b, const OpTemplate& op);
bool permute(Builder& b, const OpTemplate& op);
bool transpose(Builder& b, const OpTemplate& op);
bool expand(Builder& b, const OpTemplate& op);
bool squeeze(Builder& b, const OpTemplate& op);
bool unsqueeze(Builder& b, const OpTemplate& op);
bool slice(Builder& b, const OpTemplate& op);
bool select(Builder& b, const OpTemplate& op);
bool split(Builder& b, const OpTemplate& op);
bool alias(Builder& b, const OpTemplate& op);
bool as_strided(Builder& b, const OpTemplate& op);
bool diagonal(Builder& b, const OpTemplate& op);

// ops/indexing.cpp
bool index_select(Builder& b, const OpTemplate& op);
bool index(Builder& b, const OpTemplate& op);
bool by_values(Builder& b, const OpTemplate& op);
bool index_put(Builder& b, const OpTemplate& op);
bool index_add(Builder& b, const OpTemplate& op);
bool index_fill(Builder& b, const OpTemplate& op);
bool gather(Builder& b, const OpTemplate& op);
bool scatter(Builder& b, const OpTemplate& op);
bool embedding(Builder& b, const OpTemplate& op);
bool cat(Builder& b, const OpTemplate& op);
bool stack(Builder& b, const OpTemplate& op);
bool pad(Builder& b, const OpTemplate& op);
bool roll(Builder& b, const OpTemplate& op);
bool flip(Builder& b, const OpTemplate& op);
bool triangle(Builder& b, const OpTemplate& op);

// ops/neural.cpp
bool softmax(Builder& b, const OpTemplate& op);
bool nll_loss(Builder& b, const OpTemplate& op);
bool cross_entropy(Builder& b, const OpTemplate& op);
bool mse_loss(Builder& b, const OpTemplate& op);
bool pool(Builder& b, const OpTemplate& op);
bool pool_signal(Builder& b, const OpTemplate& op);
bool layer_norm(Builder& b, const OpTemplate& op);
bool rms_norm(Builder& b, const OpTemplate& op);
bool attention(Builder& b, const OpTemplate& op);
bool convolution(Builder& b, const OpTemplate& op);
bool dropout(Builder& b, const OpTemplate& op);

// ops/copies.cpp
bool fill_random(Builder& b, const OpTemplate& op);
bool normal_of(Builder& b, const OpTemplate& op);
bool like(Builder& b, const OpTemplate& op);
bool new_tensor(Builder& b, const OpTemplate& op);
bool cast(Builder& b, const OpTemplate& op);
bool copy_into(Builder& b, const OpTemplate& op);
bool fill_number(Builder& b, const OpTemplate& op);
bool fill_copy(Builder& b, const OpTemplate& op);
bool own_detach(Builder& b, const OpTemplate& op);

// ops/lists.cpp
bool list_unary(Builder& b, const OpTemplate& op);
bool list_number(Builder& b, const OpTemplate& op);
bool list_numbers(Builder& b, const OpTemplate& op);
bool list_binary(Builder& b, const OpTemplate& op);
bool list_tensor(Builder& b, const OpTemplate& op);
bool list_ternary(Builder& b, const OpTemplate& op);
bool list_power_of(Builder& b, const OpTemplate& op);
bool list_norm(Builder& b, const OpTemplate& op);

}  // namespace lockstep::generators
