// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/cache.h"

#include "engine/ops/infer.h"
#include "engine/ops/rules/table.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/run.h"

namespace lockstep {

namespace {

// Of the whole tensors: what a rank has of them may fit where they do not.
std::vector<TensorMeta> inferred(const Dispatched& d) {
  PlainGuard guard;
  // What the record says of results holds for the very op, and for a view in place, not for foreach variants.
  const auto& entry = *d.resolved.entry;
  const bool its_own = d.op.schema().name() == entry.name || changes_metadata(d.resolved);
  return infer_outputs(d.op, d.call.comm->mesh.device_type(), its_own ? entry.infer : nullptr,
                       on_meta(d.resolved, d.args, d.call));
}

std::vector<TensorMeta> outputs_of(const Dispatched& d) {
  const auto kind = d.resolved.entry->kind;
  if (kind == OpKind::kScalar || kind == OpKind::kWhole) return {};  // the run tells what they are
  const bool in_place = d.resolved.variant == Variant::kInPlace && !changes_metadata(d.resolved);
  const bool no_results = d.resolved.variant == Variant::kList && d.op.schema().returns().empty();
  if (!in_place && !no_results) return inferred(d);
  if (kind != OpKind::kRandom && d.op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) inferred(d);
  return in_place ? std::vector{d.call.operands.metas[0]} : std::vector<TensorMeta>();
}

std::shared_ptr<const Decision> compute_decision(const Dispatched& d, MayMove may_move,
                                                 Candidates* candidates = nullptr) {
  auto args = constants(d.resolved, d.args, d.call);
  const auto outputs = outputs_of(d);
  if (d.resolved.variant == Variant::kList)
    return decide_list(d.op, d.resolved, d.call.operands, std::move(args), outputs, candidates);
  return decide(d.op, d.resolved, d.call.operands, std::move(args), outputs, may_move, candidates);
}

// What a composite op or a formula of autograd has made is seen by nobody else; what is written through a
// view of it is read under its own name.
MayMove may_move(const Dispatched& d) {
  const bool in_composite = d.call.comm->context->in_composite;
  const bool may_write = d.resolved.variant == Variant::kInPlace && !changes_metadata(d.resolved) &&
                         !d.call.tensors[0].is_view();
  return {.viewed = in_composite || in_backward_pass(),
          .written = may_write && (in_composite || in_backward_formula())};
}

}  // namespace

bool SameEnds::operator()(const Ends& a, const Ends& b) const {
  return equal_and_named_alike(*a.first, *b.first) && equal_and_named_alike(*a.second, *b.second);
}

size_t HashOfEnds::operator()(const Ends& ends) const {
  return c10::hash_combine(ends.first->hash(), ends.second->hash());
}

Decisions& decisions_of(Context& context) {
  if (context.decisions == nullptr) context.decisions = std::make_shared<Decisions>();
  return *context.decisions;
}

std::shared_ptr<const Route> known_route(Context& context, const SpecPtr& from, const SpecPtr& to) {
  auto& known = decisions_of(context);
  auto& routes = known.routes;
  if (routes.size() > known.limit) routes.clear();
  if (const auto it = routes.find({from, to}); it != routes.end()) return it->second;
  return routes.emplace(Ends{from, to}, std::make_shared<const Route>(route(from, to))).first->second;
}

// Two Worlds may place one mesh on other ranks of this process: the decision is the same, its hosts are not.
void find_decision(Dispatched& d) {
  const auto may = may_move(d);
  auto key = cache_key(d.op, d.resolved, d.args, d.call, may);
  auto& context = *d.call.comm->context;
  auto& [limit, cache, version, routes] = decisions_of(context);
  if (rules_changed(version) || cache.size() > limit) cache.clear();
  if (const auto it = cache.find(key); it != cache.end()) {
    ++context.counters.cache_hits;
    if (it->second->positions != d.call.comm->positions)
      it->second = host(it->second->decision, *d.call.comm);
    d.hosted = it->second;
  } else {
    ++context.counters.cache_misses;
    describe(d.call);
    d.hosted = host(compute_decision(d, may), *d.call.comm);
    cache.emplace(std::move(key), d.hosted);
  }
  d.decision = d.hosted->decision.get();
}

Candidates candidates_of(Dispatched& d) {
  describe(d.call);
  Candidates candidates;
  compute_decision(d, may_move(d), &candidates);
  return candidates;
}

}  // namespace lockstep
