// SPDX-License-Identifier: Apache-2.0
#include "suites/core/refusal.h"

#include <algorithm>
#include <span>

#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "oracle/judge/due.h"
#include "oracle/judge/judge_op.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/before_call.h"
#include "oracle/program/schema.h"
#include "suites/core/engine_under_test.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"

namespace lockstep::suites {
namespace {

// What the engine holds before the call that it refuses, and the number of that call.
struct Refusing {
  size_t call = 0;
  EngineResult held;
};
std::optional<Refusing> find_call(const oracle::Case& c, EngineUnderTest& engine) {
  Refusing found;
  for (size_t k = 0; k <= c.program.calls.size(); ++k) {
    try {
      found.held = engine.run(oracle::before_call(c, k), true);
      found.call = k;
    } catch (const std::exception& e) {
      if (is_lost(e)) throw;
      return k > 0 ? std::optional(std::move(found)) : std::nullopt;
    }
  }
  return std::nullopt;
}

// The call as the plain run records it; null if it is composed of others, or another op within it is refused.
const oracle::RecordedOp* recorded(const oracle::Recording& before, const oracle::Recording& with,
                                   const std::string& name) {
  for (size_t i = before.ops.size(); i < with.ops.size(); ++i)
    if (with.ops[i].op->name == name) return &with.ops[i];
  return nullptr;
}

// Whether nothing was done for the refused op but what libtorch's autograd does before any engine sees it: it
// clones what an in-place op writes to, to differentiate it later. The plain run does the same.
bool only_autograd(const EngineResult& held, const EngineResult& after,
                   std::span<const oracle::RecordedOp> first) {
  if (after.bytes_moved != held.bytes_moved || after.timeline.size() < held.timeline.size()) return false;
  const auto more = std::span(after.timeline).subspan(held.timeline.size());
  return more.empty() || std::equal(more.begin(), more.end(), first.begin(), first.end(),
                                    [](const auto& e, const auto& op) { return e.op == op.op->name; });
}

std::vector<SpecPtr> placed(const oracle::Call& call, const oracle::RecordedOp& op,
                            const EngineResult& held) {
  std::vector<SpecPtr> specs;
  const auto of = [&](oracle::Ref ref) {
    return ref.id < 0 ? nullptr : held.values.at(static_cast<size_t>(ref.id)).spec;
  };
  for (size_t a = 0; a < op.tensors_per_arg.size(); ++a) {
    const auto* one = std::get_if<oracle::Ref>(&call.args.at(a));
    const auto* list = std::get_if<std::vector<oracle::Ref>>(&call.args[a]);
    for (int64_t k = 0; k < op.tensors_per_arg[a]; ++k)
      specs.push_back(one != nullptr    ? of(*one)
                      : list != nullptr ? of(list->at(static_cast<size_t>(k)))
                                        : nullptr);
  }
  return specs;
}

// What the engine holds when it has refused the call: whoever catches the exception goes on with that.
EngineResult after_refusal(const oracle::Case& c, size_t call, EngineUnderTest& engine) {
  auto tried = oracle::before_call(c, call);
  tried.program.refused = c.program.calls[call];
  return engine.run(tried, true);
}

bool is_out_variant(const std::string& op) {
  return !oracle::is_own(op) && !oracle::is_in_place(op) && oracle::find_operator(op).writes;
}

// Whether the schema says that the op gives another name to a tensor, or writes one. Not all that do say so.
bool says_so(const std::string& op) {
  if (oracle::is_own(op)) return false;
  const auto& schema = oracle::find_operator(op).handle.schema();
  const auto is_named = [](const c10::Argument& arg) { return arg.alias_info() != nullptr; };
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), is_named) ||
         std::any_of(schema.returns().begin(), schema.returns().end(), is_named);
}

// What a call does that neither gives another name to a tensor nor writes one, nor a backward pass, it does
// to tensors of its own, and these may move. By what the plain run has before the call and behind it.
bool has_its_own(const oracle::Call& call, const std::vector<at::Tensor>& before,
                 const std::vector<at::Tensor>& behind) {
  if (says_so(call.op)) return false;
  for (size_t i = 0; i < behind.size(); ++i) {
    if (!behind[i].defined()) continue;
    if (i < before.size() && !oracle::same_bits(before[i], behind[i])) return false;
    for (size_t k = 0; i >= before.size() && k < before.size(); ++k)
      if (behind[k].defined() && behind[i].is_alias_of(behind[k])) return false;
  }
  return true;
}

}  // namespace

// By placements, alone: each is judged due or cannot be told. A stale read is not judged.
std::vector<std::string> refusal_labels() {
  std::vector<std::string> labels;
  for (const auto why : {Refusal::kView, Refusal::kInPlace, Refusal::kStaleRead}) {
    labels.push_back(concat("refused: ", name(why)));
    if (why != Refusal::kStaleRead) labels.push_back(concat("refused: ", kDue, name(why)));
  }
  labels.emplace_back("refused: not built");
  return labels;
}

std::string refusal_label(const std::string& reason) {
  const auto known = refusal_labels();
  const auto label = concat("refused: ", reason);
  return std::find(known.begin(), known.end(), label) == known.end() ? "" : label;
}

Outcome judge_refusal(const oracle::Case& c, EngineUnderTest& engine, Allowed allowed,
                      const dashboard::RefusalRow& refusal, const std::string& text) {
  if (refusal.reason != name(Refusal::kView) && refusal.reason != name(Refusal::kInPlace))
    return GaveUp{refusal, text};
  const auto found = find_call(c, engine);
  if (!found || found->call >= c.program.calls.size()) return GaveUp{refusal, text};
  const auto& call = c.program.calls[found->call];
  const auto needless = [&](const std::string& why) {
    return failed(c.suite, "refusal", call.op, placement_pattern(c), "",
                  concat(call.op, " is refused, and need not be: ", why, "\n", text));
  };
  const bool within = call.op != refusal.op;
  if (within && says_so(call.op)) return GaveUp{refusal, text};
  if (is_out_variant(call.op)) return needless("results are copied to where its outs lie");
  const auto before = oracle::evaluate_recorded(oracle::before_call(c, found->call), *engine.plain_source());
  const auto with =
      oracle::evaluate_recorded(oracle::before_call(c, found->call + 1), *engine.plain_source());
  if (has_its_own(call, before.values, with.values))
    return needless("what it views or writes is its own, and may move");
  if (within) return GaveUp{refusal, text};
  const auto* op = recorded(before.recording, with.recording, call.op);
  if (op == nullptr || found->held.values.size() != before.values.size()) return GaveUp{refusal, text};
  const auto due = oracle::refusal_due(*op, with.recording, placed(call, *op, found->held));
  if (due.answer == oracle::Due::Answer::kUnknown) return GaveUp{refusal, text};
  if (due.answer == oracle::Due::Answer::kNo)
    return needless(concat("nothing that it views or writes has to move under ", due.placements));
  const auto wrong = [&](const std::string& what) {
    return failed(c.suite, "refusal", call.op, placement_pattern(c), "",
                  concat(call.op, " is refused, as is due, and ", what, "\n", text));
  };
  EngineResult after;
  try {
    after = after_refusal(c, found->call, engine);
  } catch (const std::exception& e) {
    if (is_lost(e)) throw;
    return wrong(concat("the engine is of no use afterwards: ", e.what()));
  }
  const auto* begin = with.recording.ops.data() + before.recording.ops.size();
  if (!only_autograd(found->held, after, {begin, op})) return wrong("something was done for it before");
  auto outcome = judge_run(oracle::before_call(c, found->call), before, after, engine, allowed);
  auto* passed = std::get_if<Passed>(&outcome);
  if (passed == nullptr) return outcome;
  passed->refusal = {refusal.op, concat(kDue, refusal.reason)};
  passed->note += concat(passed->note.empty() ? "" : "; ", "refused, as is due: ", text);
  return outcome;
}

// A composite op, of which the Program calls no such part, computes with a plain tensor of one element, and
// would write a DTensor to what comes of it.
static bool writes_to_a_constant(const Refused& refused, const oracle::Case& c) {
  const auto& calls = c.program.calls;
  return refused.why == Refusal::kPlain &&
         std::any_of(c.placements.begin(), c.placements.end(), oracle::is_plain) &&
         std::none_of(calls.begin(), calls.end(), [&](const auto& call) { return call.op == refused.op; });
}

std::optional<dashboard::RefusalRow> refusal_of(const std::exception& e, const oracle::Case& c) {
  const auto& calls = c.program.calls;
  const auto only = calls.size() == 1 ? calls[0].op : "";
  if (const auto* said = dynamic_cast<const EngineRefusal*>(&e))
    return dashboard::RefusalRow{said->op.empty() ? only : said->op,
                                 said->why.empty() ? "refused" : said->why};
  if (dynamic_cast<const NotBuilt*>(&e) != nullptr) return dashboard::RefusalRow{only, "not built"};
  const auto* refused = dynamic_cast<const Refused*>(&e);
  if (refused == nullptr || !(by_placements(refused->why) || writes_to_a_constant(*refused, c)))
    return std::nullopt;
  return dashboard::RefusalRow{refused->op, name(refused->why)};
}

}  // namespace lockstep::suites
