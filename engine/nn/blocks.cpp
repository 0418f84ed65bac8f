// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/blocks.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

// Angles [sequence, rotary]: position times base^(-2i/rotary), the frequencies written twice.
at::Tensor rope_angles(const AttentionOptions& options, at::Device device) {
  const int64_t rotary = options.head_dim() / 2 * 2;
  const auto doubles = at::TensorOptions(at::kDouble).device(device);
  const auto exponent = at::arange(0, rotary, 2, doubles) / static_cast<double>(std::max<int64_t>(rotary, 1));
  const auto frequency = at::exp(exponent * -std::log(options.rope_base));
  const auto half = at::outer(at::arange(options.max_sequence, doubles), frequency);
  return at::cat({half, half}, -1);
}

at::Tensor rotate_half(const at::Tensor& x) {
  const int64_t half = x.size(-1) / 2;
  return at::cat({x.narrow(-1, half, half).neg(), x.narrow(-1, 0, half)}, -1);
}

}  // namespace

AttentionCore::AttentionCore(const AttentionOptions& options)
    : scale_(1.0 / std::sqrt(static_cast<double>(options.head_dim()))), dropout_(options.dropout) {
  add_buffer("mask", [n = options.max_sequence, dtype = options.dtype](at::Device device) {
    const auto everywhere = at::TensorOptions(dtype).device(device);
    return at::full({n, n}, -std::numeric_limits<double>::infinity(), everywhere).triu(1);
  });
}

at::Tensor AttentionCore::forward(const Tensors& inputs) {
  const auto &q = inputs.at(0), &k = inputs.at(1), &v = inputs.at(2);
  const int64_t n = q.size(2);
  const auto mask = buffer("mask").narrow(0, 0, n).narrow(1, 0, n).to(q.scalar_type());
  const auto scores = at::matmul(q * scale_, k.transpose(2, 3)) + mask;
  return at::matmul(at::dropout(scores.softmax(-1), dropout_, is_training()), v);
}

Attention::Attention(const AttentionOptions& options) : options_(options) {
  const auto o = options_;
  LOCKSTEP_CHECK(
      o.heads > 0 && o.kv_heads > 0 && (o.head > 0 || o.hidden % o.heads == 0) && o.heads % o.kv_heads == 0,
      "[nn] attention needs hidden divisible by heads and heads by kv_heads; got hidden ", o.hidden,
      ", heads ", o.heads, ", kv_heads ", o.kv_heads);
  const int64_t inner = o.heads * o.head_dim(), kv = o.kv_heads * o.head_dim();
  q_proj_ = add_child("q_proj", std::make_shared<Linear>(o.hidden, inner, false, o.dtype));
  k_proj_ = add_child("k_proj", std::make_shared<Linear>(o.hidden, kv, false, o.dtype));
  v_proj_ = add_child("v_proj", std::make_shared<Linear>(o.hidden, kv, false, o.dtype));
  o_proj_ = add_child("o_proj", std::make_shared<Linear>(inner, o.hidden, false, o.dtype));
  core_ = add_child("core", std::make_shared<AttentionCore>(o));
  add_buffer("cos", [o](at::Device device) { return rope_angles(o, device).cos().to(o.dtype); });
  add_buffer("sin", [o](at::Device device) { return rope_angles(o, device).sin().to(o.dtype); });
}

at::Tensor Attention::rotate(const at::Tensor& heads) const {
  const int64_t n = heads.size(2), size = heads.size(3), rotary = buffer("cos").size(1);
  const auto of_positions = [&](const char* name) {
    return buffer(name).narrow(0, 0, n).to(heads.scalar_type());
  };
  const auto cos = of_positions("cos"), sin = of_positions("sin");
  const auto x = rotary == size ? heads : heads.narrow(-1, 0, rotary);
  const auto rotated = x * cos + rotate_half(x) * sin;
  return rotary == size ? rotated : at::cat({rotated, heads.narrow(-1, rotary, size - rotary)}, -1);
}

// Each key or value head serves heads/kv_heads query heads, side by side.
at::Tensor Attention::repeat_groups(const at::Tensor& heads) const {
  const int64_t repeats = options_.heads / options_.kv_heads;
  if (repeats == 1) return heads;
  const auto b = heads.size(0), kv = heads.size(1), n = heads.size(2), size = heads.size(3);
  return heads.unsqueeze(2).expand({b, kv, repeats, n, size}).reshape({b, kv * repeats, n, size});
}

at::Tensor Attention::forward(const Tensors& inputs) {
  const auto& x = inputs.at(0);
  const int64_t b = x.size(0), n = x.size(1), size = options_.head_dim();
  LOCKSTEP_CHECK(n <= options_.max_sequence, "[nn] attention over ", n, " positions; the model was made for ",
                 options_.max_sequence);
  const auto split = [&](const at::Tensor& y, int64_t heads) {
    return y.view({b, n, heads, size}).transpose(1, 2);
  };
  const auto q = rotate(split((*q_proj_)(x), options_.heads));
  const auto k = rotate(split((*k_proj_)(x), options_.kv_heads));
  const auto v = split((*v_proj_)(x), options_.kv_heads);
  const auto y = (*core_)(q, repeat_groups(k), repeat_groups(v));
  return (*o_proj_)(y.transpose(1, 2).reshape({b, n, options_.heads * size}));
}

Mlp::Mlp(int64_t hidden, int64_t inner, at::ScalarType dtype) {
  gate_proj_ = add_child("gate_proj", std::make_shared<Linear>(hidden, inner, false, dtype));
  up_proj_ = add_child("up_proj", std::make_shared<Linear>(hidden, inner, false, dtype));
  down_proj_ = add_child("down_proj", std::make_shared<Linear>(inner, hidden, false, dtype));
}

at::Tensor Mlp::forward(const Tensors& inputs) {
  const auto& x = inputs.at(0);
  return (*down_proj_)(at::silu((*gate_proj_)(x)) * (*up_proj_)(x));
}

}  // namespace lockstep::nn
