// SPDX-License-Identifier: Apache-2.0
// Engines that are wrong where DTensors begin and end: what user code declares of its own computation, hooks,
// modes and gradients that add up. Each runs another Program than it was given, and reports that honestly.
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "oracle/random/random_simulation.h"
#include "suites/adversaries/adversary.h"
#include "suites/core/hash_log.h"
#include "suites/faults/rewrite.h"

namespace lockstep::suites::plant {
namespace {

using oracle::Target;

enum class Of { kGradients, kResult };

// A local_map's targets are, for each operand, @in and @gradient, then @out.
Rewritten called_pending(const oracle::Case& c, Of what) {
  Rewriter r(c);
  for (const auto& call : c.program.calls) {
    auto args = r.arguments(call);
    std::vector<Target*> targets;
    for (auto& arg : args)
      if (auto* target = std::get_if<Target>(&arg); call.op == oracle::kLocalMap && target != nullptr)
        targets.push_back(target);
    for (size_t i = 0; i < targets.size(); ++i)
      if (what == Of::kGradients ? i % 2 == 1 : i + 1 == targets.size())
        for (auto& p : targets[i]->placements)
          if (is_replicate(p)) p = Partial{};
    r.copy(call, std::move(args));
  }
  return std::move(r).finish();
}
Rewritten result_pending(const oracle::Case& c) {
  return called_pending(c, Of::kResult);
}
Rewritten gradients_pending(const oracle::Case& c) {
  return called_pending(c, Of::kGradients);
}

// ---- statements that have no effect, or one too many ----

Rewritten repeated(const oracle::Case& c, std::string_view op, int times) {
  Rewriter r(c);
  for (const auto& call : c.program.calls)
    for (int i = 0; i < (call.op == op ? times : 1); ++i) r.copy(call);
  return std::move(r).finish();
}
Rewritten without_hooks(const oracle::Case& c) {
  return repeated(c, oracle::kScaleGradient, 0);
}
Rewritten hooks_twice(const oracle::Case& c) {
  return repeated(c, oracle::kScaleGradient, 2);
}
Rewritten without_modes(const oracle::Case& c) {
  return repeated(c, oracle::kSetGradEnabled, 0);
}

// What accumulates is the last backward's gradient alone. The seeds are copied as an accumulate copies them.
Rewritten overwriting(const oracle::Case& c) {
  Rewriter r(c);
  for (auto call : c.program.calls) {
    auto args = r.arguments(call);
    if (call.op == oracle::kAccumulate) {
      for (auto& seed : std::get<std::vector<oracle::Ref>>(args.at(1)))
        seed = r.insert("aten::clone", {seed, oracle::None{}});
      call.op = oracle::kBackward;
      args.emplace_back(true);
    }
    r.copy(call, std::move(args));
  }
  return std::move(r).finish();
}

// What a factory is to make in parts every rank has whole.
Rewritten made_whole(const oracle::Case& c) {
  Rewriter r(c);
  for (const auto& call : c.program.calls) {
    auto args = r.arguments(call);
    for (auto& arg : args)
      if (auto* target = std::get_if<Target>(&arg); target != nullptr && !oracle::is_own(call.op))
        *target = {Placements(target->placements.size(), Replicate{}), {}};
    r.copy(call, std::move(args));
  }
  return std::move(r).finish();
}

constexpr const char* kMade =
    "v1:edges;mesh=2;seed=1;dev=1x256;x0=f32[5]:normal(1)@[S0];v0=aten::zeros([5],f32,none,@[S0],none);"
    "v1=aten::add.Tensor(v0,x0,1)#433275f8";
constexpr const char* kCopies =
    "v2:edges;mesh=2;seed=1;dev=1x256;x0=f32[4x3]:normal(1)@[R]!;x1=f32[4x3]:normal(3)@[R];"
    "v0=lockstep::local_map(\"aten::neg\",x0,@[R],@[R],@[R],[4,3]);"
    "v1=lockstep::backward(t[v0],t[x1])#3261956d";
constexpr const char* kHook =
    "v2:edges;mesh=2;seed=1;dev=1x256;x0=f32[5]:normal(1)@[S0]!;x1=f32[5]:normal(2)@[R];"
    "v0=aten::neg(x0);[]=lockstep::scale_gradient(v0,2.0);v1=lockstep::backward(t[v0],t[x1])#86aaf0a6";
constexpr const char* kMode =
    "v2:edges;mesh=2;seed=1;dev=1x256;x0=f32[5]:normal(1)@[S0]!;x1=f32[5]:normal(2)@[R];"
    "[]=lockstep::set_grad_enabled(false);v0=aten::neg(x0);[]=lockstep::set_grad_enabled(true);"
    "v1=aten::mul.Tensor(x0,v0);v2=lockstep::backward(t[v1],t[x1])#dfe65a15";
constexpr const char* kTwice =
    "v2:edges;mesh=2;seed=1;dev=1x256;x0=f32[5]:normal(1)@[S0]!;x1=f32[5]:normal(2)@[R];"
    "v0=aten::neg(x0);v1=lockstep::accumulate(t[v0],t[x1]);"
    "v2=lockstep::accumulate(t[v0],t[x1])#eb3de533";

// Cases with the statement, of accumulate two, since the first one adds to nothing; and without memory that
// nobody has written: it is never the same.
Touches states(std::string_view statement) {
  return [statement](const oracle::Case& c) {
    const auto& calls = c.program.calls;
    const int least = statement == oracle::kAccumulate ? 2 : 1;
    return std::count_if(calls.begin(), calls.end(), [&](auto& call) { return call.op == statement; }) >=
               least &&
           std::none_of(calls.begin(), calls.end(), [](auto& call) { return leaves_unwritten(call.op); });
  };
}

// A hook on a gradient that is zero shows nowhere, and a history that nothing goes along: one device comes to
// the same values. With another history it may refuse the Program.
bool shows_on_one_device(const oracle::Case& c, Rewritten (*slip)(const oracle::Case&)) try {
  oracle::SimulatedSource with, without;
  const auto a = oracle::evaluate(c, with), b = oracle::evaluate(slip(c).c, without);
  const auto same = [](const at::Tensor& x, const at::Tensor& y) {
    return x.defined() == y.defined() && (!x.defined() || oracle::compare(x, y).equal());
  };
  return !std::equal(a.begin(), a.end(), b.begin(), same);
} catch (const std::exception&) {
  return false;
}

Touches shows(std::string_view statement, Rewritten (*slip)(const oracle::Case&)) {
  if (statement != oracle::kScaleGradient && statement != oracle::kSetGradEnabled) return states(statement);
  return [stated = states(statement), slip](const oracle::Case& c) {
    return stated(c) && shows_on_one_device(c, slip);
  };
}

// What reads the result reads its operand, whose history it has.
Rewritten without_detach(const oracle::Case& c) {
  Rewriter r(c);
  auto value = std::ssize(c.program.inputs);
  for (const auto& call : c.program.calls) {
    r.copy(call);
    if (call.op == "aten::detach") r.replace_uses({value}, {r.now(std::get<oracle::Ref>(call.args.at(0)))});
    value += call.results;
  }
  return std::move(r).finish();
}

// The host reads what the first rank has of it: of a sum its own term.
void reads_one_term(const oracle::Case& c, EngineResult& result) {
  auto value = c.program.inputs.size();
  for (const auto& call : c.program.calls) {
    const auto* read = call.args.empty() ? nullptr : std::get_if<oracle::Ref>(&call.args[0]);
    if (call.op == oracle::kItem && read != nullptr) {
      const auto& operand = result.values.at(static_cast<size_t>(read->id));
      for (auto& local : result.values.at(value).locals) {
        if (!operand.defined()) continue;
        const auto term = operand.locals.at(0).to(local.scalar_type()).reshape(local.sizes());
        if (!oracle::compare(local, term).equal()) local = term.clone();
      }
    }
    value += static_cast<size_t>(call.results);
  }
}

constexpr const char* kDetached =
    "v1:program;mesh=2;seed=1;dev=1x256;x0=f32[5]:normal(1)@[S0]!;x1=f32[5]:normal(2)@[R];"
    "v0=aten::detach(x0);v1=aten::mul.Tensor(x0,v0);v2=lockstep::backward(t[v1],t[x1])#9d91ed33";
constexpr const char* kItem =
    "v2:edges;mesh=2;seed=1;dev=1x256;x0=f32[-]:normal(1)@[P];v0=lockstep::item(x0)#eafc4337";

struct Edge {
  const char *name, *hole, *token;
  std::string_view statement;
  Rewritten (*run)(const oracle::Case&);
};
constexpr Edge kEdges[] = {
    {"local-map-result-pending", "how a result of user code is placed", kCopies, oracle::kLocalMap,
     result_pending},
    {"local-map-gradient-pending", "how a gradient of user code is placed", kCopies, oracle::kLocalMap,
     gradients_pending},
    {"hook-forgotten", "that a hook ran", kHook, oracle::kScaleGradient, without_hooks},
    {"hook-twice", "that a hook ran once", kHook, oracle::kScaleGradient, hooks_twice},
    {"grad-mode-forgotten", "which ops have a history", kMode, oracle::kSetGradEnabled, without_modes},
    {"factory-whole", "where the Program has a factory put its tensor", kMade, "aten::zeros", made_whole},
    {"accumulate-overwrites", "what a gradient is added to", kTwice, oracle::kAccumulate, overwriting},
};

}  // namespace

std::vector<Adversary> edges() {
  std::vector<Adversary> all;
  for (const auto& e : kEdges)
    all.push_back({e.name, e.hole, {e.token}, "edges", shows(e.statement, e.run), with_program(e.run)});
  all.push_back({"detach-forgotten",
                 "which results have a history",
                 {kDetached},
                 "",
                 any,
                 with_program(without_detach)});
  all.push_back({"reads-one-term",
                 "what the host reads",
                 {kItem},
                 "edges",
                 states(oracle::kItem),
                 with_result(reads_one_term)});
  return all;
}

}  // namespace lockstep::suites::plant
