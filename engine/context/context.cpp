// SPDX-License-Identifier: Apache-2.0
#include "engine/context/context.h"

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Of the kinds that libtorch carries to its threads, one that it uses in its own tests alone.
constexpr auto kKind = c10::DebugInfoKind::TEST_INFO;

// A Context by way of libtorch's list of such things, which owns what it points to.
struct Carried : c10::DebugInfoBase {
  explicit Carried(ContextPtr c) : context(std::move(c)) {}
  ContextPtr context;
};

}  // namespace

const ContextPtr& current_context() {
  if (auto* carried = c10::ThreadLocalDebugInfo::get(kKind)) return static_cast<Carried*>(carried)->context;
  thread_local const auto own = std::make_shared<Context>();
  return own;
}

ContextPtr child_of(const Context& parent) {
  auto child = std::make_shared<Context>();
  child->generator = parent.generator;
  child->policy = parent.policy;
  child->drawing = parent.drawing;
  child->rules = parent.rules;
  child->explicit_redistribution = parent.explicit_redistribution;
  child->fallback_replicate = parent.fallback_replicate;
  return child;
}

ContextScope::ContextScope(ContextPtr context)
    : guard_(kKind, std::make_shared<Carried>(std::move(context))) {}

ContextUse::ContextUse(Context& context)
    : context_(context),
      outer_(context.user.exchange(std::this_thread::get_id(), std::memory_order_relaxed)) {
  if (outer_ == std::thread::id() || outer_ == std::this_thread::get_id()) return;
  context.user.store(outer_, std::memory_order_relaxed);
  throw Error(
      "[context] two threads run operators on DTensors of one Context at once; let them take turns, or make "
      "a mesh in each: a mesh belongs to the Context of the thread that makes it");
}

}  // namespace lockstep
