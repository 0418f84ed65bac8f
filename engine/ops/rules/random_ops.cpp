// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/random_ops.h"

#include <ATen/ATen.h>

#include "engine/ops/rules/families.h"
#include "engine/random/draw.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

RandomCall filling(const RandomOp& r, RandomKind kind) {
  const auto& out = *r.outputs[0];
  return {.kind = kind, .dtype = out.dtype(), .shape = out.shape(), .stride = out.stride()};
}

RandomCall integers(const RandomOp& r, int64_t from, std::optional<int64_t> to) {
  const auto range = drawing().integers(r.outputs[0]->dtype(), from, to);
  auto call = filling(r, range.kind);
  call.low = range.low;
  call.high = range.high;
  return call;
}

// A bound may be a tensor of one element.
int64_t bound(const RandomOp& r, std::string_view name) {
  const Arguments args(r.op.schema(), r.args);
  if (!args[name].isTensor()) return args.integer(name);
  return r.placed[1].front().item<int64_t>();
}

RandomResults drawn(const RandomOp& r, const RandomCall& call) {
  return {draw(call, *r.outputs[0], r.comm)};
}

// A fill with a distribution, whose parameters are the arguments of these names.
RandomResults fill(const RandomOp& r, RandomKind kind, std::string_view a = {}, std::string_view b = {}) {
  const Arguments args(r.op.schema(), r.args);
  auto call = filling(r, kind);
  if (!a.empty()) call.a = args[a].toDouble();
  if (!b.empty()) call.b = args[b].toDouble();
  return drawn(r, call);
}

RandomResults draw_randint_like(const RandomOp& r) {
  const bool bounded = r.call.overload.starts_with("low");
  return drawn(r, integers(r, bounded ? bound(r, "low") : 0, bound(r, "high")));
}

RandomResults draw_random(const RandomOp& r) {
  const auto& overload = r.call.overload;
  if (overload == "from")
    return drawn(r,
                 integers(r, bound(r, "from"), Arguments(r.op.schema(), r.args)["to"].toOptional<int64_t>()));
  if (overload == "to") return drawn(r, integers(r, 0, bound(r, "to")));
  return fill(r, RandomKind::kRandom);
}

RandomResults draw_bernoulli(const RandomOp& r) {
  if (r.call.overload.empty()) return bernoulli_op(r, 0);
  if (r.call.overload == "Tensor") return bernoulli_op(r, 1);
  return fill(r, RandomKind::kBernoulli, "p");
}

RandomResults draw_normal(const RandomOp& r) {
  return r.call.overload.empty() ? fill(r, RandomKind::kNormal, "mean", "std") : normal_of_tensors_op(r);
}

// Probabilities in a tensor are read, like any pointwise input; means and standard deviations likewise.
Rows bernoulli_rows(const OpCall& call) {
  const bool reads = call.overload.empty() || call.overload == "Tensor";
  return reads ? rules::pointwise(call) : rules::like(call);
}

// Noise is written where what it is for lies: a number in blocks, too, for the op's own loops meet flat
// locals.
Rows noisy(const OpCall& call) {
  auto rows = rules::pointwise(call);
  const auto& lies = call.current[0];
  if (call.outputs[0].ndim() > 0 || !is_ragged(lies)) return rows;
  rows.push_back(row_of(call, lies, lies));
  rows.back().inputs[1] = lies;
  return rows;
}

Rows normal_rows(const OpCall& call) {
  const bool fills = call.overload.empty() || call.overload == "out";
  return fills ? rules::like(call) : rules::pointwise(call);
}

Metas of_dropout(const Arguments& args) {
  const auto input = args.tensor("input");
  return {{at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))}};
}
Metas of_dropout_backward(const Arguments& args) {
  const auto grad = args.tensor("grad_output");
  if (args.device() == c10::kCUDA) return {{at::empty_like(grad, grad.suggest_memory_format())}};
  // It lies as both ask for; the factor makes a float of integers.
  return {{at::mul(grad, args.tensor("mask")).mul(0.5)}};
}

Metas of_multinomial(const Arguments& args) {
  const auto weights = args.tensor("self");
  auto shape = weights.sizes().vec();
  LOCKSTEP_CHECK(!shape.empty(), "[aten::multinomial] weights without dimensions; give one or two");
  shape.back() = args.integer("num_samples");
  return {{at::empty(shape, weights.options().dtype(at::kLong))}};
}

// With a bound in a tensor libtorch reads it on the host, which does not matter here.
Metas of_randint_like(const Arguments& args) {
  if (!args["high"].isTensor()) return std::nullopt;
  const auto self = args.tensor("self");
  const auto dtype = args["dtype"].toOptional<at::ScalarType>();
  return {{at::empty_like(self, self.options().dtype(dtype.value_or(self.scalar_type())))}};
}

void refuse_generators(const RandomOp& r) {
  for (const auto& arg : r.args)
    if (arg.isGenerator())
      throw Refused(Refusal::kGenerator, concat(r.op.operator_name()), "",
                    "got a torch::Generator for a DTensor, whose stream is lockstep::generator(); ",
                    "leave the argument out");
}

}  // namespace

RandomResults random_op(const OpEntry& entry, const RandomOp& r) {
  refuse_generators(r);
  return entry.draw(r);
}

rules::Records rules::random_ops() {
  using Kind = RandomKind;
  constexpr auto kRandom = OpKind::kRandom;
  const auto fills = [](const char* name, Draw draw) {
    return OpEntry{.name = name, .rows = like, .kind = kRandom, .draw = draw};
  };
  // clang-format off
  return {
      fills("rand_like", [](auto& r) { return fill(r, Kind::kUniform); }),
      fills("randn_like", [](auto& r) { return fill(r, Kind::kNormal); }),
      fills("uniform", [](auto& r) { return fill(r, Kind::kUniform, "from", "to"); }),
      fills("normal_functional", [](auto& r) { return fill(r, Kind::kNormal, "mean", "std"); }),
      fills("log_normal", [](auto& r) { return fill(r, Kind::kLogNormal, "mean", "std"); }),
      fills("cauchy", [](auto& r) { return fill(r, Kind::kCauchy, "median", "sigma"); }),
      fills("exponential", [](auto& r) { return fill(r, Kind::kExponential, "lambd"); }),
      fills("geometric", [](auto& r) { return fill(r, Kind::kGeometric, "p"); }),
      fills("random", draw_random),
      {.name = "randint_like", .rows = like, .kind = kRandom, .infer = of_randint_like,
       .draw = draw_randint_like},
      // These draw into out in the order of its memory; the functional op's result is contiguous, or lies as
      // the probabilities.
      {.name = "normal", .rows = normal_rows, .kind = kRandom, .draw = draw_normal,
       .memory_of_out = OutMemory::kContiguous},
      {.name = "bernoulli", .rows = bernoulli_rows, .kind = kRandom, .draw = draw_bernoulli,
       .memory_of_out = OutMemory::kAsInput},
      {.name = "native_dropout", .rows = follow, .kind = kRandom, .infer = of_dropout,
       .draw = native_dropout_op},
      {.name = "native_dropout_backward", .rows = pointwise, .infer = of_dropout_backward},
      {.name = "rrelu_with_noise", .rows = noisy, .kind = kRandom, .infer = dense_self, .draw = rrelu_op},
      {.name = "rrelu_with_noise_backward", .rows = pointwise},
      {.name = "multinomial", .kind = kRandom, .infer = of_multinomial, .draw = multinomial_op},
  };
  // clang-format on
}

}  // namespace lockstep
