// SPDX-License-Identifier: Apache-2.0
// Context: all that the engine keeps between operators, in one place. Every thread has one. A mesh keeps the
// one in which it was made, and an operator on its DTensors runs in it, on whatever thread (decision 0007).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/context/generator.h"
#include "engine/values/placement.h"
#include "engine/values/timeline.h"

namespace lockstep {

struct Comm;
struct Decisions;
struct Drawing;
struct PlanTrace;
struct Resolutions;
struct RuleOverrides;
class Arriving;
class OpInputs;
class RandomSource;
enum class RandomPolicy;

// What a backward pass applies to gradients of DTensors at the moment.
enum class BackwardNode {
  kNone,
  kFormula,   // libtorch's own: what it makes from nothing is autograd's
  kFunction,  // a user's: only the zeros for gradients that there are none of
  kForeign,   // a DTensor's own end, which a plain tensor has reached that nothing of these made
  kDelivery,  // none any more: what they made is being added up
};

// A tensor that an op is given.
struct Given {
  at::Tensor tensor;
  bool is_written = false;
};

struct DispatchCounters {
  int64_t ops = 0;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t redistributions = 0;  // implicit ones
  int64_t fallbacks = 0;        // ops without a rule, run whole
};

// One thread uses it at a time.
struct Context {
  // What a program sets, mostly by a scope (`Within`).
  Generator generator;
  RandomPolicy policy{};                // kSingleDevice
  const Drawing* drawing = nullptr;     // null: by the policy
  RandomSource* source = nullptr;       // serves random operators on plain tensors; null: libtorch does
  Timeline* timeline = nullptr;         // null: nothing is recorded
  PlanTrace* plan_trace = nullptr;      // of what the rows of plans meet
  std::vector<Given>* given = nullptr;  // what ops, redistributions and the host are given, in turn
  std::shared_ptr<const RuleOverrides> rules;  // go before all others; null: none
  bool explicit_redistribution = false;        // an implicit one is an error
  bool fallback_replicate = false;             // an op without a rule runs on whole tensors
  // Where an operator stands that calls others.
  BackwardNode node{};                    // kNone
  std::shared_ptr<const Comm> gradients;  // of a DTensor that the node is applied to; null: of none
  int64_t own_in = -1;                    // the last backward pass in which autograd made a plain gradient
  bool in_composite = false;              // tensors that ops view and write are the composite's own
  std::shared_ptr<const Comm> factories;  // plain factories make DTensors of this mesh; null: plain tensors
  Placements factory_placements;          // so placed; empty: Replicate
  OpInputs* op_inputs = nullptr;          // that move before their op; null: none
  // What redistributions with async_op have begun.
  std::vector<const Arriving*> arriving;  // not waited for yet
  std::vector<std::string> never_waited;  // gone, and nobody had used it
  // What was counted and derived.
  DispatchCounters counters;
  std::shared_ptr<Decisions> decisions;
  std::shared_ptr<Resolutions> resolutions;

  std::atomic<std::thread::id> user;  // who is inside an operator; no thread: nobody
};
using ContextPtr = std::shared_ptr<Context>;

// That of the innermost ContextScope, else the thread's own.
const ContextPtr& current_context();

// For a thread of the same program: it draws and decides as `parent` does, and has recorded and counted
// nothing.
ContextPtr child_of(const Context& parent);

// While alive, `context` is the current one of this thread, and of those that libtorch starts for it.
class ContextScope {
 public:
  explicit ContextScope(ContextPtr context);

 private:
  c10::DebugInfoGuard guard_;
};

// While alive, this thread is inside an operator of the Context. Throws Error if another thread is.
class ContextUse {
 public:
  explicit ContextUse(Context& context);
  ~ContextUse() { context_.user.store(outer_, std::memory_order_relaxed); }
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;

 private:
  Context& context_;
  std::thread::id outer_;
};

// While alive, a field of the Context that was current at the beginning has this value.
template <class T>
class Within {
 public:
  Within(T Context::*field, std::type_identity_t<T> value)
      : Within(current_context(), field, std::move(value)) {}
  // Of another one.
  Within(ContextPtr context, T Context::*field, std::type_identity_t<T> value)
      : context_(std::move(context)),
        field_(field),
        before_(std::exchange((*context_).*field, std::move(value))) {}
  ~Within() { (*context_).*field_ = std::move(before_); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  ContextPtr context_;
  T Context::*field_;
  T before_;
};

}  // namespace lockstep
