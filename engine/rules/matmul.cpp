// SPDX-License-Identifier: Apache-2.0
// Products of matrices: free dimensions stay sharded, a sharded contraction leaves a pending sum, and the product is
// linear in each operand.
#include "engine/rules/families.h"

namespace lockstep::rules {
namespace {

Placement s(int64_t dim) { return Shard{dim}; }
const Placement r = Replicate{};
const Placement p = Partial{ReduceOp::kSum};
const Placement avg = Partial{ReduceOp::kAvg};

}  // namespace

Rows mm(const OpCall&) {
  return {{{s(0)}, {s(0), r}, {}}, {{s(1)}, {r, s(1)}, {}}, {{p}, {s(1), s(0)}, {}},
          {{p}, {p, r}, {}},       {{p}, {r, p}, {}},       {{avg}, {avg, r}, {}}, {{avg}, {r, avg}, {}}};
}

Rows bmm(const OpCall&) {
  return {{{s(0)}, {s(0), s(0)}, {}}, {{s(1)}, {s(1), r}, {}}, {{s(2)}, {r, s(2)}, {}}, {{p}, {s(2), s(1)}, {}},
          {{p}, {p, r}, {}},          {{p}, {r, p}, {}}};
}

// The added term may be broadcast: of a shard it takes the part that it has.
static Placement added(const OpCall& call, int64_t dim) {
  const auto& term = call.inputs[0];
  const int64_t own = dim - (call.outputs[0].ndim() - term.ndim());
  if (own < 0 || term.shape[static_cast<size_t>(own)] == 1) return Replicate{};
  return Shard{own};
}

Rows addmm(const OpCall& call) {
  // Pending sums: the added term is pending too, so that it counts once.
  return {{{s(0)}, {added(call, 0), s(0), r}, {}},
          {{s(1)}, {added(call, 1), r, s(1)}, {}},
          {{p}, {p, s(1), s(0)}, {}},
          {{p}, {p, p, r}, {}},
          {{p}, {p, r, p}, {}}};
}

Rows baddbmm(const OpCall& call) {
  return {{{s(0)}, {added(call, 0), s(0), s(0)}, {}},
          {{s(1)}, {added(call, 1), s(1), r}, {}},
          {{s(2)}, {added(call, 2), r, s(2)}, {}},
          {{p}, {p, s(2), s(1)}, {}},
          {{p}, {p, p, r}, {}},
          {{p}, {p, r, p}, {}}};
}

Rows mv(const OpCall&) { return {{{s(0)}, {s(0), r}, {}}, {{p}, {s(1), s(0)}, {}}, {{p}, {p, r}, {}}, {{p}, {r, p}, {}}}; }

Rows dot(const OpCall&) { return {{{p}, {s(0), s(0)}, {}}, {{p}, {p, r}, {}}, {{p}, {r, p}, {}}}; }

}  // namespace lockstep::rules
