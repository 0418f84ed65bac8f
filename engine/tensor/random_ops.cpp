// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/random_ops.h"

#include <ATen/ATen.h>

#include "engine/random/draw.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/random_compound_ops.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// Ops that fill with a distribution, whose first arguments after the tensor are its parameters.
struct Fill {
  std::string_view name;  // of the functional op
  RandomKind kind;
  size_t parameters;
};
constexpr Fill kFills[] = {{"aten::rand_like", RandomKind::kUniform, 0},
                           {"aten::randn_like", RandomKind::kNormal, 0},
                           {"aten::uniform", RandomKind::kUniform, 2},
                           {"aten::normal", RandomKind::kNormal, 2},
                           {"aten::normal_functional", RandomKind::kNormal, 2},
                           {"aten::log_normal", RandomKind::kLogNormal, 2},
                           {"aten::cauchy", RandomKind::kCauchy, 2},
                           {"aten::exponential", RandomKind::kExponential, 1},
                           {"aten::geometric", RandomKind::kGeometric, 1},
                           {"aten::bernoulli", RandomKind::kBernoulli, 1}};

RandomCall filling(const RandomOp& r, RandomKind kind) {
  const auto& out = *r.outputs[0];
  RandomCall call;
  call.kind = kind;
  call.dtype = out.dtype();
  call.shape = out.shape();
  call.stride = out.stride();
  return call;
}

RandomCall integers(const RandomOp& r, int64_t from, std::optional<int64_t> to) {
  const auto range = drawing().integers(r.outputs[0]->dtype(), from, to);
  auto call = filling(r, range.kind);
  call.low = range.low;
  call.high = range.high;
  return call;
}

// A bound may be a tensor of one element.
int64_t bound(const RandomOp& r, size_t arg) {
  if (!r.args[arg].isTensor()) return r.args[arg].toInt();
  const auto* impl = dtensor_impl(r.placed[1]);
  return (impl == nullptr ? r.placed[1] : impl->locals().front()).item<int64_t>();
}

RandomCall integer_call(const RandomOp& r, std::string_view name) {
  const auto& overload = r.call.overload;
  if (name == "aten::randint_like")
    return overload.starts_with("low") ? integers(r, bound(r, 1), bound(r, 2)) : integers(r, 0, bound(r, 1));
  if (overload == "from") return integers(r, bound(r, 1), r.args[2].toOptional<int64_t>());
  if (overload == "to") return integers(r, 0, bound(r, 1));
  return filling(r, RandomKind::kRandom);
}

RandomCall call_of(const RandomOp& r, std::string_view name) {
  if (name == "aten::randint_like" || name == "aten::random") return integer_call(r, name);
  const auto* fill =
      std::find_if(std::begin(kFills), std::end(kFills), [&](auto& f) { return f.name == name; });
  if (fill == std::end(kFills))
    throw NotBuilt(concat("[", r.op.operator_name(),
                          "] is not drawn on DTensors in this version; draw it on a plain "
                          "tensor and distribute_tensor the result"));
  auto call = filling(r, fill->kind);
  if (fill->parameters > 0) call.a = r.args[1].toDouble();
  if (fill->parameters > 1) call.b = r.args[2].toDouble();
  return call;
}

void refuse_generators(const RandomOp& r) {
  for (const auto& arg : r.args)
    LOCKSTEP_CHECK(!arg.isGenerator(), "[", r.op.operator_name(),
                   "] got a torch::Generator for a DTensor, whose stream is lockstep::generator(); leave the "
                   "argument out");
}

}  // namespace

std::vector<PerRank<at::Tensor>> random_op(const RandomOp& r) {
  refuse_generators(r);
  std::string_view name = r.call.name;
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto& overload = r.call.overload;
  if (name == "aten::native_dropout") return native_dropout_op(r);
  if (name == "aten::rrelu_with_noise") return rrelu_op(r);
  if (name == "aten::multinomial") return multinomial_op(r);
  if (name == "aten::bernoulli" && overload.empty()) return bernoulli_op(r, 0);
  if (name == "aten::bernoulli" && overload == "Tensor") return bernoulli_op(r, 1);
  if (name == "aten::normal" && !overload.empty()) return normal_of_tensors_op(r);
  return {draw(call_of(r, name), *r.outputs[0], r.comm)};
}

}  // namespace lockstep
