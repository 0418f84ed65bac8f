// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/bypass.h"

#include <algorithm>

#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"

namespace lockstep {
namespace {

// What an op makes of operands that lie so, lies so too.
bool is_contiguous(const Spec& spec) {
  return spec.stride() == contiguous_strides(spec.shape());
}

bool all_as(const Spec& spec, std::span<const SpecPtr> tensors) {
  return std::ranges::all_of(tensors, [&](const SpecPtr& t) { return t != nullptr && *t == spec; });
}

// Specs say all but which element is where in a rank's part; equal ones cut alike, unevenly or to nothing. Of
// terms no rank can tell: other ones may have the same sum, and the same ones one that is NaN.
bool both_cut_alike(const BypassCall& call) {
  const auto &a = call.tensors[0], &b = call.tensors[1];
  return a != nullptr && b != nullptr && *a == *b && !a->has_partial() && !a->all_replicate();
}

// False on one rank is false: truths pend where the tensors are cut, and replicas agree.
SpecPtr all_true(const BypassCall& call) {
  const auto& of = *call.tensors[0];
  auto placements = of.placements();
  for (auto& p : placements)
    if (!is_replicate(p)) p = Partial{ReduceOp::kMin};
  return std::make_shared<const Spec>(of.mesh(), std::move(placements), std::vector<int64_t>(), at::kBool);
}

// Each element of such an out is of the elements that this rank has, and as floating as they are: nothing is
// gathered, converted or refused for its dtype.
bool all_as_out(const BypassCall& call) {
  const auto& out = call.tensors.back();
  return out != nullptr && !out->has_partial() && is_contiguous(*out) && at::isFloatingType(out->dtype()) &&
         all_as(*out, call.tensors);
}

bool is_sum(const Placement& p) {
  return is_partial(p, ReduceOp::kSum) || is_partial(p, ReduceOp::kAvg);
}

// A factor that is not positive makes another zero of a term. @pre the call adds DTensors
bool adds_terms(const BypassCall& call) {
  const auto* factor = call.args.find("alpha");
  return factor == nullptr || rules::positive(*factor, call.tensors[0]->dtype());
}

bool all_pend_as_out(const BypassCall& call) {
  const auto& out = call.tensors.back();
  if (call.tensors.size() != 3 || out == nullptr) return false;  // adds a number, which is no term
  if (!out->has_partial() || !is_contiguous(*out)) return false;
  const bool sums =
      std::ranges::all_of(out->placements(), [](const Placement& p) { return !is_partial(p) || is_sum(p); });
  return sums && all_as(*out, call.tensors) && adds_terms(call);
}

SpecPtr as_out(const BypassCall& call) {
  return call.tensors.back();
}

// Whether `whole` is Replicate where `pending` is a sum of several ranks' terms, in one place or more, and
// all else is alike. Of no elements, or along one rank, to reduce costs nothing, and is what the rule does.
// Most sums are of other placements, which are looked at first.
bool is_term_of(const Spec& whole, const Spec& pending) {
  bool some = false;
  for (int64_t d = 0; d < whole.mesh().ndim(); ++d) {
    const auto &a = whole.placements()[as_size(d)], &b = pending.placements()[as_size(d)];
    if (a == b) continue;
    if (!is_replicate(a) || !is_partial(b, ReduceOp::kSum) || whole.mesh().size(d) == 1) return false;
    some = true;
  }
  return some && whole.shape() == pending.shape() && whole.dtype() == pending.dtype() &&
         whole.order() == pending.order() && pending.numel() > 0 && is_contiguous(whole) &&
         is_contiguous(pending);
}

bool whole_beside_pending(const BypassCall& call) {
  if (call.tensors.size() != 2 || call.tensors[0] == nullptr || call.tensors[1] == nullptr) return false;
  const auto &a = *call.tensors[0], &b = *call.tensors[1];
  return (is_term_of(a, b) || is_term_of(b, a)) && adds_terms(call);
}

SpecPtr as_pending(const BypassCall& call) {
  return call.tensors[is_term_of(*call.tensors[0], *call.tensors[1]) ? 1 : 0];
}

}  // namespace

const std::vector<Bypass>& own_bypasses() {
  static const std::vector<Bypass> all = {
      {"aten::equal", Variant::kFunctional, both_cut_alike, all_true},
      {at::Tag::pointwise, Variant::kOut, all_as_out, as_out},
      {"aten::add", Variant::kOut, all_pend_as_out, as_out},
      {"aten::add", Variant::kFunctional, whole_beside_pending, as_pending},
  };
  return all;
}

}  // namespace lockstep
