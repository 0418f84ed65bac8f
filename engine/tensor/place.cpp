// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/run.h"

#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/redistribute.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

void refuse_implicit(const Dispatched& d) {
  std::string moves;
  for (size_t i = 0; i < d.decision->routes.size(); ++i)
    if (!d.decision->routes[i].steps.empty())
      moves += concat("\n  input ", i, ": redistribute(", to_string(d.decision->inputs[i]->placements()),
                      ") of ", to_string(*d.call.operands.specs[i]));
  refuse(Refusal::kExplicit, d,
         "would redistribute implicitly, which ExplicitRedistribution forbids:", std::move(moves));
}

// A list op writes element by element, so that a later element may read what an earlier one wrote; a
// redistributed copy would be of the older state.
void refuse_stale_reads(const Dispatched& d) {
  if (d.call.comm->positions.empty()) return;
  const auto local = [&](size_t i) { return dtensor_impl(d.call.tensors[i])->locals().front(); };
  for (size_t i = 0; i < d.placed.size(); ++i) {
    if (d.call.operands.specs[i] == nullptr || d.decision->routes[i].steps.empty()) continue;
    for (size_t j = 0; j < d.placed.size(); ++j)
      if (d.call.operands.mutated[j] && d.call.operands.specs[j] != nullptr && local(i).is_alias_of(local(j)))
        refuse(Refusal::kStaleRead, d,
               concat("reads ", to_string(*d.call.operands.specs[i]),
                      " in other placements than it writes it in; "),
               "redistribute it first, into a tensor of its own");
  }
}

// Whether not a copy moves but the tensor itself: one that the op writes, or autograd through it.
bool moves_itself(const Dispatched& d, size_t input) {
  return d.call.operands.mutated[input] || (in_backward_pass() && d.resolved.entry->written_by_autograd);
}

}  // namespace

void check_writes(const Dispatched& d) {
  const auto& arriving = d.call.comm->context->arriving;
  if (arriving.empty() || changes_metadata(d.resolved)) return;
  for (const auto& t : mutated_tensors(d)) {
    const auto& written = dtensor_impl(t)->locals();  // has arrived itself
    for (const auto* one : arriving)
      if (one->sends(written))
        refuse(Refusal::kInFlight, d, concat("writes to what ", one->what(), " still sends; "),
               "wait_tensor() its result before, or write to a clone");
  }
}

void place_inputs(Dispatched& d) {
  auto& context = *d.call.comm->context;
  if (d.decision->redistributes && context.explicit_redistribution) refuse_implicit(d);
  d.placed = d.call.tensors;
  if (!d.decision->redistributes) return;
  if (d.resolved.variant == Variant::kList) refuse_stale_reads(d);
  PlainGuard guard;
  for (size_t i = 0; i < d.placed.size(); ++i) {
    if (d.call.operands.specs[i] == nullptr || d.decision->routes[i].steps.empty()) continue;
    ++context.counters.redistributions;
    d.placed[i] = run_route(d.placed[i], d.decision->routes[i], true, dtensor_impl(d.placed[i])->comm());
    if (moves_itself(d, i))
      dtensor_impl(d.call.tensors[i])
          ->reset(dtensor_impl(d.placed[i])->spec(), dtensor_impl(d.placed[i])->locals());
  }
}

}  // namespace lockstep
