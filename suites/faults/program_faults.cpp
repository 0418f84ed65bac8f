// SPDX-License-Identifier: Apache-2.0
// Faults that amount to running another program: lost aliases, effects that happen twice, state shared
// between uses.
#include <map>

#include "generators/program/trial.h"
#include "generators/random/random_ops.h"
#include "suites/faults/planters.h"
#include "suites/faults/rewrite.h"

namespace lockstep::suites::plant {
namespace {

using oracle::Arg;
using oracle::Call;
using oracle::None;
using oracle::Ref;
using oracle::Target;

bool in_place(const Call& call) {
  const auto base = call.op.substr(0, call.op.find('.'));
  return base.ends_with('_') && call.results == 1 && !call.args.empty() &&
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

bool random_call(const Call& call) {
  return generators::find_random_op(call.op) != nullptr;
}

template <class Each>
Rewritten each_call(const oracle::Case& c, Each each) {
  Rewriter r(c);
  for (const auto& call : c.program.calls) each(r, call);
  return std::move(r).finish();
}

// The second call of an op takes from the first, of the same number of arguments, those that `stale` picks.
Rewritten from_first(const oracle::Case& c, bool (*stale)(const Arg&)) {
  std::map<std::string, std::vector<Arg>> first;
  return each_call(c, [&](Rewriter& r, const Call& call) {
    auto args = r.arguments(call);
    const auto [entry, fresh] = first.try_emplace(call.op, args);
    if (!fresh && !call.op.starts_with("lockstep::") && entry->second.size() == args.size())
      for (size_t i = 0; i < args.size(); ++i)
        if (stale(args[i]) && args[i].index() == entry->second[i].index()) args[i] = entry->second[i];
    r.copy(call, args);
  });
}

Ref clone_of(Rewriter& r, const Arg& value) {
  return r.insert("aten::clone", {value, None{}});
}

}  // namespace

EnginePtr in_place_on_copy() {
  return with_program([](const oracle::Case& c) {
    return each_call(c, [](Rewriter& r, const Call& call) {
      if (!in_place(call)) return r.copy(call);
      auto args = r.arguments(call);
      args[0] = clone_of(r, args[0]);
      r.copy(call, args);
    });
  });
}

EnginePtr view_of_copy() {
  return with_program([](const oracle::Case& c) {
    return each_call(c, [](Rewriter& r, const Call& call) {
      if (!view(call)) return r.copy(call);
      auto args = r.arguments(call);
      args[0] = clone_of(r, args[0]);
      r.copy(call, args);
    });
  });
}

EnginePtr in_place_twice() {
  return with_program([](const oracle::Case& c) {
    return each_call(c, [](Rewriter& r, const Call& call) {
      if (in_place(call)) r.insert(call.op, r.arguments(call));
      r.copy(call);
    });
  });
}

EnginePtr gradient_output_ignored() {
  return with_program([](const oracle::Case& c) {
    return each_call(c, [](Rewriter& r, const Call& call) {
      if (call.op != "lockstep::backward") return r.copy(call);
      auto args = r.arguments(call);
      if (auto* outputs = std::get_if<std::vector<Ref>>(&args[1]))
        for (auto& g : *outputs)
          if (g.id >= 0) g = r.insert("aten::ones_like", {Arg(g), None{}, None{}, None{}, None{}, None{}});
      r.copy(call, args);
    });
  });
}

EnginePtr partial_reduced_in_place() {
  return with_program([](const oracle::Case& c) {
    std::map<int64_t, bool> reduced;
    return each_call(c, [&](Rewriter& r, const Call& call) {
      const auto* source = call.op == "lockstep::redistribute" ? std::get_if<Ref>(&call.args[0]) : nullptr;
      const bool is_input = source != nullptr && source->id < static_cast<int64_t>(c.placements.size());
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
  });
}

EnginePtr redistribute_reused() {
  return with_program([](const oracle::Case& c) {
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
  });
}

EnginePtr cache_ignores_numbers() {
  return with_program([](const oracle::Case& c) {
    return from_first(c, [](const Arg& arg) {
      return std::holds_alternative<int64_t>(arg) || std::holds_alternative<double>(arg);
    });
  });
}

EnginePtr cache_ignores_flags() {
  return with_program([](const oracle::Case& c) {
    return from_first(c, [](const Arg& arg) {
      return std::holds_alternative<bool>(arg) || std::holds_alternative<c10::ScalarType>(arg) ||
             std::holds_alternative<std::vector<int64_t>>(arg);
    });
  });
}

EnginePtr cache_ignores_operands() {
  return with_program([](const oracle::Case& c) {
    return from_first(c, [](const Arg& arg) { return std::holds_alternative<Ref>(arg); });
  });
}

EnginePtr draws_twice() {
  return with_program([](const oracle::Case& c) {
    return each_call(c, [](Rewriter& r, const Call& call) {
      if (random_call(call) && call.results == 1 && !call.args.empty() &&
          std::holds_alternative<Ref>(call.args[0])) {
        auto copied = r.arguments(call);
        if (in_place(call)) copied[0] = clone_of(r, copied[0]);
        r.insert(call.op, copied);
      }
      r.copy(call);
    });
  });
}

EnginePtr other_device() {
  return with_program([](const oracle::Case& c) {
    auto out = each_call(c, [](Rewriter& r, const Call& call) { r.copy(call); });
    out.c.device.sm_count += 1;
    return out;
  });
}

EnginePtr per_rank_seeds() {
  return with_policy(RandomPolicy::kPerRankSeeds);
}
EnginePtr offset_based() {
  return with_policy(RandomPolicy::kOffsetBased);
}

}  // namespace lockstep::suites::plant
