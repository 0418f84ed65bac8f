// SPDX-License-Identifier: Apache-2.0
// Faults that amount to running another program: lost aliases, effects that happen twice, state shared
// between uses.
#include <map>
#include <set>

#include "generators/program/trial.h"
#include "generators/random/random_ops.h"
#include "oracle/program/statements.h"
#include "suites/faults/rewrite.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using oracle::Arg;
using oracle::Call;
using oracle::None;
using oracle::Ref;
using oracle::Target;

bool in_place(const Call& call) {
  return oracle::is_in_place(call.op) && call.results == 1 && !call.args.empty() &&
         std::holds_alternative<Ref>(call.args[0]);
}

bool view(const Call& call) {
  for (const auto* name :
       {"aten::view", "aten::transpose.int", "aten::permute", "aten::unsqueeze", "aten::select.int",
        "aten::slice.Tensor", "aten::t", "aten::squeeze", "aten::reshape", "aten::narrow",
        "aten::squeeze.dim", "aten::flatten.using_ints", "aten::expand"})
    if (call.op == name) return true;
  return false;
}

template <class Each>
Rewritten each_call(const oracle::Case& c, Each each) {
  Rewriter r(c);
  for (const auto& call : c.program.calls) each(r, call);
  return std::move(r).finish();
}

// Each call by itself.
template <void (*Change)(Rewriter&, const Call&)>
Rewritten each(const oracle::Case& c) {
  return each_call(c, Change);
}

// The second call of an op takes from the first, of the same number of arguments, those that are stale.
template <bool (*Stale)(const Arg&)>
Rewritten from_first(const oracle::Case& c) {
  std::map<std::string, std::vector<Arg>> first;
  return each_call(c, [&](Rewriter& r, const Call& call) {
    auto args = r.arguments(call);
    const auto [entry, fresh] = first.try_emplace(call.op, args);
    if (!fresh && !call.op.starts_with("lockstep::") && entry->second.size() == args.size())
      for (size_t i = 0; i < args.size(); ++i)
        if (Stale(args[i]) && args[i].index() == entry->second[i].index()) args[i] = entry->second[i];
    r.copy(call, args);
  });
}

Ref clone_of(Rewriter& r, const Arg& value) {
  return r.insert("aten::clone", {value, None{}});
}

// The first argument of calls so chosen is a copy.
template <bool (*Chosen)(const Call&)>
void on_copy(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (Chosen(call)) args[0] = clone_of(r, args[0]);
  r.copy(call, args);
}

void in_place_twice(Rewriter& r, const Call& call) {
  if (in_place(call)) r.insert(call.op, r.arguments(call));
  r.copy(call);
}

void gradient_output_ignored(Rewriter& r, const Call& call) {
  if (call.op != oracle::kBackward) return r.copy(call);
  auto args = r.arguments(call);
  if (auto* outputs = std::get_if<std::vector<Ref>>(&args[1]))
    for (auto& g : *outputs)
      if (g.id >= 0) g = r.insert("aten::ones_like", {Arg(g), None{}, None{}, None{}, None{}, None{}});
  r.copy(call, args);
}

void equal_to_itself(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (call.op == oracle::kEquality) args[1] = args[0];
  r.copy(call, args);
}

void average_terms(Arg& arg) {
  if (auto* target = std::get_if<Target>(&arg))
    for (auto& p : target->placements)
      if (is_partial(p)) p = Partial{ReduceOp::kAvg};
}

void local_terms_averaged(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (call.op == oracle::kLocalMap) std::for_each(args.begin(), args.end(), average_terms);
  r.copy(call, args);
}

bool writes_locals(const Call& call) {
  const auto map = oracle::local_map_of(call);
  return map && oracle::is_in_place(map->op);
}

// The DTensor is what it was when its local tensors were handed out.
void local_write_lost(Rewriter& r, const Call& call) {
  if (!writes_locals(call)) return r.copy(call);
  const auto map = oracle::local_map_of(call);
  r.copy({std::string(oracle::kRedistribute), {}, 1}, {r.arguments(call)[1], map->in[0]});
}

bool has_local_write(const oracle::Case& c) {
  const auto& calls = c.program.calls;
  return std::any_of(calls.begin(), calls.end(), writes_locals);
}

// Over how many ranks a call cuts what it redistributes.
int64_t parts_of(const oracle::Case& c, const Call& call) {
  int64_t parts = 1;
  if (call.op != oracle::kRedistribute) return parts;
  const auto& placements = std::get<Target>(call.args[1]).placements;
  for (size_t d = 0; d < placements.size(); ++d)
    if (distributes(placements[d])) parts *= c.mesh.size(static_cast<int64_t>(d));
  return parts;
}

// For each mean that pends by the Program's word, its number among the calls and that of the ranks.
std::map<size_t, int64_t> pending_means(const oracle::Case& c) {
  const auto& calls = c.program.calls;
  std::map<size_t, int64_t> means;
  for (size_t k = 2; k < calls.size(); ++k)
    if (oracle::stem(calls[k].op) == "aten::mean" && calls[k - 1].op == oracle::kSetExplicitRedistribution)
      if (const auto parts = parts_of(c, calls[k - 2]); parts > 1) means[k] = parts;
  return means;
}

Rewritten pending_mean_summed(const oracle::Case& c) {
  Rewriter r(c);
  const auto means = pending_means(c);
  auto value = std::ssize(c.program.inputs);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    r.copy(c.program.calls[k]);
    if (const auto mean = means.find(k); mean != means.end())
      r.become({value}, r.insert("aten::mul.Scalar", {Ref{r.now({value})}, mean->second}));
    value += c.program.calls[k].results;
  }
  return std::move(r).finish();
}

bool has_pending_mean(const oracle::Case& c) {
  return !pending_means(c).empty();
}

void history_goes_on(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (call.op == oracle::kSetGradEnabled) args[0] = true;
  r.copy(call, args);
}

void hook_lost(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (call.op == oracle::kScaleGradient) args[1] = 1.0;
  r.copy(call, args);
}

void draws_anew(Rewriter& r, const Call& call) {
  auto args = r.arguments(call);
  if (call.op == oracle::kCheckpoint) args[0] = false;
  r.copy(call, args);
}

void block_kept(Rewriter& r, const Call& call) {
  if (call.op != oracle::kCheckpoint && call.op != oracle::kCheckpointEnd) r.copy(call);
}

bool restores_draws(const oracle::Case& c) {
  return has_random(c) && has_backward(c) &&
         std::any_of(c.program.calls.begin(), c.program.calls.end(), [](const Call& call) {
           return call.op == oracle::kCheckpoint && call.args[0] == Arg(true);
         });
}

bool is_fused_step(const Call& call) {
  return call.op.starts_with("aten::_fused_");
}

// The moments that an earlier step has left, by its list of them.
Rewritten moments_forgotten(const oracle::Case& c) {
  std::set<int64_t> left;
  return each_call(c, [&](Rewriter& r, const Call& call) {
    auto args = r.arguments(call);
    auto* moments = is_fused_step(call) ? std::get_if<std::vector<Ref>>(&args[2]) : nullptr;
    if (moments == nullptr) return r.copy(call, args);
    for (auto& moment : *moments) {
      if (left.insert(moment.id).second) continue;
      moment = r.insert("aten::zeros_like", {Arg(moment), None{}, None{}, None{}, None{}, None{}});
    }
    r.copy(call, args);
  });
}

bool steps_again(const oracle::Case& c) {
  std::set<int64_t> left;
  for (const auto& call : c.program.calls)
    if (is_fused_step(call))
      for (const auto moment : oracle::refs_of(call.args[2]))
        if (!left.insert(moment.id).second) return true;
  return false;
}

void gradients_overwritten(Rewriter& r, const Call& call) {
  auto other = call;
  if (call.op == oracle::kAccumulate) other.op = oracle::kBackward;
  r.copy(other, r.arguments(call));
}

Rewritten partial_reduced_in_place(const oracle::Case& c) {
  std::map<int64_t, bool> reduced;
  return each_call(c, [&](Rewriter& r, const Call& call) {
    const auto* source = call.op == "lockstep::redistribute" ? std::get_if<Ref>(&call.args[0]) : nullptr;
    const bool is_input = source != nullptr && source->id < std::ssize(c.placements);
    r.copy(call);
    if (!is_input || reduced[source->id]) return;
    const auto& placements = c.placements[static_cast<size_t>(source->id)].placements;
    int64_t terms = 1;
    for (size_t d = 0; d < placements.size(); ++d)
      if (is_partial(placements[d], ReduceOp::kSum)) terms *= c.mesh.size(static_cast<int64_t>(d));
    if (terms == 1) return;
    reduced[source->id] = true;
    r.replace_uses(*source, r.insert("aten::mul.Scalar", {Ref{r.now(*source)}, terms}));
  });
}

Rewritten redistribute_reused(const oracle::Case& c) {
  const auto shapes = generators::trial(c.program);
  std::map<std::string, Ref> first;  // by target, shape and dtype
  return each_call(c, [&](Rewriter& r, const Call& call) {
    const auto* source = call.op == "lockstep::redistribute" ? std::get_if<Ref>(&call.args[0]) : nullptr;
    if (source == nullptr || !shapes || !shapes->at(static_cast<size_t>(source->id)).defined())
      return r.copy(call);
    const auto& like = shapes->at(static_cast<size_t>(source->id));
    const auto key = to_string(std::get<Target>(call.args[1]).placements) + shape_text(like.sizes().vec()) +
                     dtype_name(like.scalar_type());
    const auto [entry, fresh] = first.try_emplace(key, Ref{r.now(*source)});
    auto args = r.arguments(call);
    args[0] = entry->second;
    r.copy(call, args);
  });
}

bool is_number(const Arg& arg) {
  return std::holds_alternative<int64_t>(arg) || std::holds_alternative<double>(arg);
}

bool is_flag(const Arg& arg) {
  return std::holds_alternative<bool>(arg) || std::holds_alternative<c10::ScalarType>(arg) ||
         std::holds_alternative<std::vector<int64_t>>(arg);
}

bool is_operand(const Arg& arg) {
  return std::holds_alternative<Ref>(arg);
}

void draws_twice(Rewriter& r, const Call& call) {
  if (generators::find_random_op(call.op) != nullptr && call.results == 1 && !call.args.empty() &&
      std::holds_alternative<Ref>(call.args[0])) {
    auto copied = r.arguments(call);
    if (in_place(call)) copied[0] = clone_of(r, copied[0]);
    r.insert(call.op, copied);
  }
  r.copy(call);
}

Rewritten other_device(const oracle::Case& c) {
  auto out = each_call(c, [](Rewriter& r, const Call& call) { r.copy(call); });
  out.c.device.sm_count += 1;
  return out;
}

// Where a write is lost, memory that nobody had written before is other memory in each run.
bool writes_values(const oracle::Case& c) {
  static const auto has_unset = mentions("empty");
  return writes(c) && !has_unset(c);
}

}  // namespace

std::vector<Fault> program_faults() {
  return {
      {12, "in-place-on-copy", "K4", "an in-place op writes to a copy", "program", 500, 3, writes_values,
       with_program(each<on_copy<in_place>>)},
      {13, "view-of-copy", "K4", "a view is a copy, so that writes through it are lost", "program", 3000, 3,
       writes_values, with_program(each<on_copy<view>>)},
      {82, "moves-what-it-writes", "K4", "what an in-place op cannot write to where it is, is moved for it",
       "ops", 1000, 3, on_ranks(writes), with_refused_moved(Refusal::kInPlace)},
      {83, "moves-what-it-views", "K4", "what has no view where it is, is moved for it", "ops", 1000, 3,
       on_ranks(any), with_refused_moved(Refusal::kView)},
      {14, "in-place-twice", "K4", "an in-place op writes twice", "program", 500, 3, writes,
       with_program(each<in_place_twice>)},
      {26, "cache-ignores-numbers", "K8", "the second call of an op gets the first's numbers", "cache", 300,
       3, any, with_program(from_first<is_number>)},
      {27, "cache-ignores-flags", "K8", "the second call of an op gets the first's dims, flags and dtypes",
       "cache", 1000, 3, any, with_program(from_first<is_flag>)},
      {28, "cache-ignores-operands", "K8", "the second call of an op gets the first's operands", "cache", 300,
       3, any, with_program(from_first<is_operand>)},
      {33, "gradient-output-ignored", "K10", "backward starts from ones", "gradient", 100, 3, has_backward,
       with_program(each<gradient_output_ignored>)},
      {72, "equal-to-itself", "K14", "equality is asked of one tensor", "edges", 500, 3,
       calls(oracle::kEquality), with_program(each<equal_to_itself>)},
      {77, "local-terms-averaged", "K1", "what ranks computed as terms of a sum is averaged", "edges", 300, 3,
       on_ranks(calls(oracle::kLocalMap)), with_program(each<local_terms_averaged>)},
      {73, "no-grad-ignored", "K10", "what no_grad encloses has a history", "edges", 1500, 5,
       calls(oracle::kSetGradEnabled), with_program(each<history_goes_on>)},
      {74, "hook-lost", "K10", "a hook on a gradient is not called", "edges", 300, 3,
       calls(oracle::kScaleGradient), with_program(each<hook_lost>)},
      {75, "gradients-overwritten", "K11", "a second backward overwrites what the first left", "edges", 300,
       3, calls(oracle::kAccumulate), with_program(each<gradients_overwritten>)},
      {109, "recompute-draws-anew", "K12", "a checkpoint's block draws other numbers when it runs again",
       "edges", 3000, 6, restores_draws, with_program(each<draws_anew>)},
      {110, "recompute-forgotten", "K10", "a checkpoint keeps what it ought to compute again", "edges", 500,
       5, calls(oracle::kCheckpoint), with_program(each<block_kept>)},
      {111, "optimizer-forgets", "K11", "each step of an optimizer begins with moments of zero", "edges",
       1000, 5, steps_again, with_program(moments_forgotten)},
      {114, "local-write-lost", "K4", "what is written to local tensors does not show in their DTensor",
       "edges", 1000, 3, has_local_write, with_program(each<local_write_lost>)},
      {115, "pending-mean-summed", "K1", "a mean that pends is the sum of the ranks' means", "edges", 1000, 3,
       has_pending_mean, with_program(pending_mean_summed)},
      {38, "partial-reduced-in-place", "K11", "a Partial used again has been reduced in place",
       "redistribute", 1000, 3, on_ranks(calls("lockstep::redistribute")),
       with_program(partial_reduced_in_place)},
      {39, "redistribute-reused", "K11", "a second redistribution alike gets the first's value", "program",
       3000, 3, on_ranks(calls("lockstep::redistribute")), with_program(redistribute_reused)},
      {40, "per-rank-seeds", "K12", "each rank draws from its own seed", "random", 100, 1,
       on_ranks(has_random), with_policy(RandomPolicy::kPerRankSeeds)},
      {41, "offset-based", "K12", "ranks draw at offsets that count elements", "random", 100, 1,
       on_ranks(has_random), with_policy(RandomPolicy::kOffsetBased)},
      {42, "draws-twice", "K12", "a random op advances the stream twice", "random", 100, 2, has_random,
       with_program(each<draws_twice>)},
      {43, "other-device", "K12", "the stream is that of a device with one multiprocessor more", "random",
       200, 1, has_random, with_program(other_device)},
  };
}

}  // namespace lockstep::suites::plant
