// SPDX-License-Identifier: Apache-2.0
#include "engine/random_ops.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/draw.h"
#include "engine/dtensor_impl.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

RandomCall base_call(const RandomOp& r, RandomKind kind) {
  RandomCall call;
  call.kind = kind;
  const auto& out = *r.outputs[0];
  call.dtype = out.dtype();
  call.shape = out.shape();
  call.stride = out.stride();
  return call;
}

RandomCall with_range(RandomCall call, double a, double b) {
  call.a = a;
  call.b = b;
  return call;
}

RandomCall randint(RandomCall call, int64_t low, int64_t high) {
  call.kind = RandomKind::kRandint;
  call.low = low;
  call.high = high;
  return call;
}

[[noreturn]] void not_built(const RandomOp& r) {
  throw NotBuilt(concat("[", r.op.operator_name(),
                        "] is not drawn on DTensors in this version; draw it on a plain "
                        "tensor and distribute_tensor the result"));
}

RandomCall call_of(const RandomOp& r) {
  const auto& name = r.call.name;
  const auto base = base_call(r, RandomKind::kUniform);
  const auto normal = base_call(r, RandomKind::kNormal);
  if (name == "aten::uniform_") return with_range(base, r.args[1].toDouble(), r.args[2].toDouble());
  if (name == "aten::rand_like") return base;
  if (name == "aten::normal_") return with_range(normal, r.args[1].toDouble(), r.args[2].toDouble());
  if (name == "aten::randn_like") return normal;
  if (name == "aten::bernoulli_" && r.call.overload == "float")
    return with_range(base_call(r, RandomKind::kBernoulli), r.args[1].toDouble(), 0);
  if (name == "aten::randint_like" && r.args[1].isInt())
    return r.call.overload.starts_with("low") ? randint(base, r.args[1].toInt(), r.args[2].toInt())
                                              : randint(base, 0, r.args[1].toInt());
  if (name == "aten::random_" && r.call.overload == "from" && r.args[2].isInt())
    return randint(base, r.args[1].toInt(), r.args[2].toInt());
  if (name == "aten::random_" && r.call.overload == "to") return randint(base, 0, r.args[1].toInt());
  not_built(r);
}

// The stock kernel: y = (x * m) * (1 / P) in the accumulation type, P = 1 - p rounded to it.
at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep, double p) {
  if (x.scalar_type() == at::kDouble) return x.mul(keep).mul(1.0 / (1.0 - p));
  const float scale = 1.0f / static_cast<float>(1.0 - p);
  const auto wide = x.to(at::kFloat);
  return wide.mul(keep).mul(scale).to(x.scalar_type());
}

std::vector<PerRank<at::Tensor>> native_dropout(const RandomOp& r) {
  const auto& input = *dtensor_impl(r.placed[0]);
  const double p = r.args[1].toDouble();
  const bool train = r.args[2].isNone() || r.args[2].toBool();
  std::vector<PerRank<at::Tensor>> results(2);
  if (!train || p == 0 || p == 1 || input.spec()->numel() == 0) {
    const bool keep = p != 1 || !train;
    for (const auto& x : input.locals()) {
      results[0].push_back(keep ? x.clone() : at::zeros_like(x));
      results[1].push_back(at::full_like(x, keep, x.options().dtype(at::kBool)));
    }
    return results;
  }
  auto call = with_range(base_call(r, RandomKind::kDropoutMask), p, 0);
  // Stock numbers the elements of the input: in memory order if it is dense, else logically. A copy that was
  // moved is always dense.
  call.dtype = input.spec()->dtype();
  call.stride = r.given[0]->stride();
  results[1] = draw(call, *r.outputs[1], r.comm);
  for (size_t i = 0; i < input.locals().size(); ++i)
    results[0].push_back(dropped(input.locals()[i], results[1][i], p));
  return results;
}

}  // namespace

std::vector<PerRank<at::Tensor>> random_op(const RandomOp& r) {
  if (r.call.name == "aten::native_dropout") return native_dropout(r);
  return {draw(call_of(r), *r.outputs[0], r.comm)};
}

}  // namespace lockstep
