// SPDX-License-Identifier: Apache-2.0
// Products of matrices: free dimensions stay sharded, and a sharded contraction leaves a pending sum. A
// product over a sum that is already pending may lose the sign of zero (pointwise.cpp), so pending operands
// reduce first.
#include <ATen/ATen.h>

#include "engine/ops/rules/families.h"

namespace lockstep::rules {
namespace {

Placement s(int64_t dim) {
  return Shard{dim};
}
const Placement r = Replicate{};
const Placement p = Partial{ReduceOp::kSum};

Rows mm(const OpCall&) {
  return {{{s(0)}, {s(0), r}}, {{s(1)}, {r, s(1)}}, {{p}, {s(1), s(0)}}};
}

Rows bmm(const OpCall&) {
  return {{{s(0)}, {s(0), s(0)}}, {{s(1)}, {s(1), r}}, {{s(2)}, {r, s(2)}}, {{p}, {s(2), s(1)}}};
}

// The added term may be broadcast: of a shard it takes the part that it has.
Placement added(const OpCall& call, int64_t dim) {
  const auto& term = call.inputs[0];
  const int64_t own = dim - (call.outputs[0].ndim() - term.ndim());
  if (own < 0 || term.shape[static_cast<size_t>(own)] == 1) return Replicate{};
  return Shard{own};
}

// Factors that keep every sign, so that scaled terms add up to the scaled sum.
bool positive_factors(const OpCall& call) {
  const auto dtype = call.outputs[0].dtype;
  return positive(call.args["beta"], dtype) && positive(call.args["alpha"], dtype);
}

// In a pending sum the added term is pending too, so that it counts once.
void add_contraction(Rows& rows, const OpCall& call, int64_t a, int64_t b) {
  if (positive_factors(call)) rows.push_back({{p}, {p, s(a), s(b)}});
}

Rows addmm(const OpCall& call) {
  Rows rows{{{s(0)}, {added(call, 0), s(0), r}}, {{s(1)}, {added(call, 1), r, s(1)}}};
  add_contraction(rows, call, 1, 0);
  return rows;
}

Rows baddbmm(const OpCall& call) {
  Rows rows{{{s(0)}, {added(call, 0), s(0), s(0)}},
            {{s(1)}, {added(call, 1), s(1), r}},
            {{s(2)}, {added(call, 2), r, s(2)}}};
  add_contraction(rows, call, 2, 1);
  return rows;
}

Rows mv(const OpCall&) {
  return {{{s(0)}, {s(0), r}}, {{p}, {s(1), s(0)}}};
}

Rows dot(const OpCall&) {
  return {{{p}, {s(0), s(0)}}};
}

Metas of_dot(const Arguments& args) {
  return {{sized(args.tensor("self"), {})}};
}

}  // namespace

Records matmul_ops() {
  // clang-format off
  return {
      {.name = "mm", .rows = mm, .run = local::contraction},
      {.name = "bmm", .rows = bmm, .run = local::contraction},
      {.name = "addmm", .rows = addmm, .run = local::contraction},
      {.name = "baddbmm", .rows = baddbmm, .run = local::contraction},
      {.name = "mv", .rows = mv, .run = local::contraction},
      {.name = "dot", .rows = dot, .run = local::contraction, .infer = of_dot},
  };
  // clang-format on
}

}  // namespace lockstep::rules
