// SPDX-License-Identifier: Apache-2.0
// Faults of bypasses: tried in another order, for placements that they are not for, saying that something
// else comes out.
#include <algorithm>

#include "engine/ops/rules/bypass.h"
#include "oracle/program/statements.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using Inputs = bool (*)(const BypassCall& call);
using Meta = SpecPtr (*)(const BypassCall& call);

bool any_bound(const BypassCall& call) {
  return std::ranges::all_of(call.tensors, [](const SpecPtr& t) { return t != nullptr; });
}

bool some_pend(const BypassCall& call) {
  return any_bound(call) && std::ranges::any_of(call.tensors, [](auto& t) { return t->has_partial(); });
}

bool first_is_cut(const BypassCall& call) {
  return any_bound(call) && !call.tensors[0]->has_partial() && !call.tensors[0]->all_replicate();
}

// Whatever out is like but for its shape.
bool all_but_out_alike(const BypassCall& call) {
  if (!any_bound(call)) return false;
  const auto &lead = call.tensors.front(), &out = call.tensors.back();
  const auto alike = [&](const SpecPtr& t) { return *t == *lead; };
  return !lead->has_partial() && std::all_of(call.tensors.begin(), call.tensors.end() - 1, alike) &&
         out->shape() == lead->shape() && out->dtype() == lead->dtype() && at::isFloatingType(out->dtype());
}

SpecPtr as_first(const BypassCall& call) {
  return call.tensors.front();
}
SpecPtr as_out(const BypassCall& call) {
  return call.tensors.back();
}
SpecPtr as_pending(const BypassCall& call) {
  return *std::ranges::find_if(call.tensors, [](auto& t) { return t->has_partial(); });
}

SpecPtr whole(const Spec& like, std::vector<int64_t> shape, c10::ScalarType dtype) {
  const Placements everywhere(like.placements().size(), Replicate{});
  return std::make_shared<const Spec>(like.mesh(), everywhere, std::move(shape), dtype);
}
SpecPtr own_truth(const BypassCall& call) {
  return whole(*call.tensors[0], {}, at::kBool);
}
SpecPtr as_whole(const BypassCall& call) {
  return whole(*call.tensors[0], call.tensors[0]->shape(), call.tensors[0]->dtype());
}

// Before Lockstep's own.
Plant first(Bypass::Ops op, Variant kind, Inputs inputs, Meta meta) {
  auto all = own_bypasses();
  all.insert(all.begin(), Bypass{std::move(op), kind, inputs, meta});
  return with_bypasses(std::move(all));
}

bool writes_to_out(const oracle::Case& c) {
  return std::ranges::any_of(c.program.calls, [](auto& call) { return call.op.ends_with("out"); });
}

}  // namespace

std::vector<Fault> bypass_faults() {
  using enum Variant;
  return {
      {237, "broader-bypass-first", "K3", "a bypass for whatever pends is tried before the one for a term",
       "rules", 3000, 3, on_ranks(calls("aten::add")), first("aten::add", kFunctional, some_pend, as_first)},
      {238, "equal-of-own-part", "K14", "whether tensors are equal, each rank says by its own part", "edges",
       1500, 3, on_ranks(calls(oracle::kEquality)),
       first("aten::equal", kFunctional, first_is_cut, own_truth)},
      {239, "out-written-as-it-lies", "K7", "a result is written to an out that lies elsewhere", "ops", 3000,
       3, on_ranks(writes_to_out), first(at::Tag::pointwise, kOut, all_but_out_alike, as_out)},
      {240, "taken-from-a-term", "K13", "a whole tensor is taken from a Partial by its first rank alone",
       "rules", 3000, 3, on_ranks(calls("aten::sub")),
       first("aten::sub", kFunctional, some_pend, as_pending)},
      {241, "relu-of-terms", "K3", "a bypass leaves relu of a Partial pending", "rules", 3000, 3,
       on_ranks(calls("aten::relu")), first("aten::relu", kFunctional, some_pend, as_first)},
      {242, "part-called-whole", "K2", "a bypass calls each rank's part of exp the whole", "rules", 3000, 3,
       on_ranks(calls("aten::exp")), first("aten::exp", kFunctional, first_is_cut, as_whole)},
  };
}

}  // namespace lockstep::suites::plant
