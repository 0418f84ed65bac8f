// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/dispatch_ops.h"

#include <ATen/ATen.h>

#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::suites {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr Operand kRows{"[S0]"}, kWhole{"[R]"}, kNumbers{"[S0]", at::kLong};
constexpr bool kNotStatic = false;
constexpr uint64_t kSeed = 7;

// What the plain op gives of the whole operands, with the oracle's numbers.
Tensors drawn_by_oracle(const Op& op, const Operands& on) {
  Tensors whole;
  for (const auto& t : on.distributed) whole.push_back(full_tensor(t));
  oracle::SimulatedSource source;
  const RandomScope scope(source);
  manual_seed(kSeed);
  return op.run(whole);
}

}  // namespace

const std::vector<Op>& dispatch_ops() {
  static const std::vector<Op> all = {
      {"add", "add.Tensor", {kRows, kRows}, [](const Tensors& x) { return Tensors{at::add(x[0], x[1])}; }},
      {"add_out",
       "add.out",
       {kRows, kRows, kRows},
       [](const Tensors& x) {
         auto out = x[2];
         return Tensors{at::add_out(out, x[0], x[1])};
       },
       kNotStatic},
      {"mm", "mm", {kRows, kWhole}, [](const Tensors& x) { return Tensors{at::mm(x[0], x[1])}; }},
      {"mul", "mul.Tensor", {kRows, kRows}, [](const Tensors& x) { return Tensors{at::mul(x[0], x[1])}; }},
      {"relu", "relu", {kRows}, [](const Tensors& x) { return Tensors{at::relu(x[0])}; }},
      {"sum", "sum.dim_IntList", {kRows}, [](const Tensors& x) { return Tensors{at::sum(x[0], {1})}; }},
      {"softmax", "_softmax", {kRows}, [](const Tensors& x) { return Tensors{at::softmax(x[0], -1)}; }},
      {"native_layer_norm",
       "native_layer_norm",
       {kRows},
       [](const Tensors& x) {
         auto [y, mean, rstd] = at::native_layer_norm(x[0], {x[0].size(1)}, {}, {}, 1e-5);
         return Tensors{y, mean, rstd};
       }},
      {"embedding",
       "embedding",
       {kWhole, kNumbers},
       [](const Tensors& x) { return Tensors{at::embedding(x[0], x[1])}; },
       kNotStatic},
      {"view", "view", {kRows}, [](const Tensors& x) { return Tensors{x[0].view({-1})}; }},
      {"transpose", "transpose.int", {kRows}, [](const Tensors& x) { return Tensors{x[0].transpose(0, 1)}; }},
      {"mul_", "mul_.Scalar", {kRows}, [](const Tensors& x) { return Tensors{x[0].mul_(-1)}; }, kNotStatic},
      {"_foreach_mul_",
       "_foreach_mul_.Scalar",
       {kRows, kRows, kRows, kRows},
       [](const Tensors& x) {
         at::_foreach_mul_(x, -1);
         return x;
       },
       kNotStatic},
      {"equal",
       "equal",
       {kRows, kRows},
       [](const Tensors& x) { return at::equal(x[0], x[1]) ? Tensors{x[0]} : Tensors(); },
       kNotStatic},
      {"nonzero",
       "nonzero",
       {kWhole},
       [](const Tensors& x) { return Tensors{at::nonzero(x[0])}; },
       kNotStatic},
      {"dropout",
       nullptr,
       {kRows},
       [](const Tensors& x) { return Tensors{at::dropout(x[0], 0.5, true)}; },
       kNotStatic,
       true},
  };
  return all;
}

Operands operands(const Op& op, int64_t ranks, int64_t n) {
  const auto mesh = init_device_mesh({ranks});
  Operands made;
  made.locals.resize(static_cast<size_t>(ranks));
  for (const auto& operand : op.operands) {
    auto whole = at::arange(n * n, at::kFloat).remainder(7).add(1).view({n, n});
    if (operand.dtype == at::kLong) whole = whole.select(1, 0).remainder(4).to(at::kLong);
    made.distributed.push_back(distribute_tensor(whole, mesh, parse_placements(operand.placements)));
    const auto& held = local_tensors(made.distributed.back());
    for (size_t r = 0; r < held.size(); ++r) made.locals[r].push_back(held[r].clone());
  }
  return made;
}

void check(const Op& op, const Operands& on) {
  const auto who = concat("dispatch of aten::", op.name);
  const ForkRng still;
  manual_seed(kSeed);
  const auto results = op.run(on.distributed);
  if (op.draws) {
    Tensors whole;
    for (const auto& t : results) whole.push_back(full_tensor(t));
    return check_bits(who, drawn_by_oracle(op, on), whole);
  }
  for (size_t r = 0; r < on.locals.size(); ++r) {
    Tensors mine;
    for (const auto& t : results) mine.push_back(is_dtensor(t) ? local_tensors(t)[r] : t);
    check_bits(who, op.run(on.locals[r]), mine);
  }
}

void run_plain(const Op& op, const Operands& on) {
  for (const auto& locals : on.locals) op.run(locals);
}

dashboard::Series dispatch_series(const Op& op, const std::string& how) {
  return {concat("dispatch ", op.name, ", ", how), "dispatch", false, false, "us"};
}

}  // namespace lockstep::suites
