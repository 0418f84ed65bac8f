// SPDX-License-Identifier: Apache-2.0
// Ops without a rule, where a FallbackReplicate scope allows it: whole on every rank.
#include "engine/tensor/run.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

bool is_view(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
    return r.alias_info() != nullptr && !r.alias_info()->isWrite();
  });
}

// Why whole tensors would not do; empty: they do. What a view returns would be of a copy; memory that is
// taken over or resized is the locals', and the Spec would not know.
std::string obstacle(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return "draws random numbers, which no stream of ours has";
  if (is_view(op.schema())) return "is a view, and would be one of a copy";
  if (op.hasTag(at::Tag::inplace_view)) return "changes what its tensor is in place";
  return "";
}

[[noreturn]] void refuse_without_rule(const c10::OperatorHandle& op, const ParsedCall& call, bool allowed) {
  const auto specs = specs_of(call);
  if (op.hasTag(at::Tag::nondeterministic_seeded))
    throw Refused(
        Refusal::kNoStream, concat(op.operator_name()), specs,
        concat("draws random numbers, and Lockstep has no stream for it on a DTensor (", specs, "); "),
        "draw it on a plain tensor and distribute_tensor the result");
  const auto why = obstacle(op);
  throw Refused(
      Refusal::kNoRule, concat(op.operator_name()), specs,
      concat("has no sharding rule for (", specs, ")",
             allowed ? concat(", and FallbackReplicate does not run it, since it ", why) : "", "; "),
      concat("add one with lockstep::register_sharding(\"", op.schema().name(), "\", rows), ",
             why.empty() ? "allow it whole on every rank with lockstep::FallbackReplicate, " : "",
             "or call the op on full_tensor()"));
}

}  // namespace

Resolved without_rule(const c10::OperatorHandle& op, const Resolved& resolved, const ParsedCall& call) {
  static const OpEntry kWholeTensors{.kind = OpKind::kWhole};
  auto& context = *call.comm->context;
  const bool allowed = context.fallback_replicate;
  if (!allowed || !obstacle(op).empty()) refuse_without_rule(op, call, allowed);
  auto whole = resolved;
  whole.entry = &kWholeTensors;
  if (whole.variant != Variant::kOut) ++context.counters.fallbacks;  // an out variant calls the functional op
  return whole;
}

}  // namespace lockstep
