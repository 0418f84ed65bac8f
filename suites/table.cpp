// SPDX-License-Identifier: Apache-2.0
// The table of suites. To add one: a law in laws/, a line here.
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "engine/values/error.h"
#include "generators/cases/programs.h"
#include "oracle/plain/evaluate.h"
#include "suites/core/facts.h"
#include "suites/core/heartbeat.h"
#include "suites/core/judge.h"
#include "suites/core/options.h"
#include "suites/faults/fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// A name as an argument of a template.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&name)[N]) { std::copy_n(name, N, text); }
};

template <Name name>
oracle::Case generated(uint64_t run_seed, int64_t index) {
  return generators::generate(name.text, run_seed, static_cast<uint64_t>(index));
}

// The oracle itself: a sharded Program computes what one device computes, in bits, or differs with proof.
Outcome judge_program(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kExplained);
}

std::vector<Suite> of_programs() {
  return {
      {"layout",
       "each rank holds the elements that brute force gives it, and the locals together are the tensor", 10,
       kEndless, false, generated<"layout">, judge_layout},
      {"redistribute",
       "a redistribution keeps every bit on every rank, goes back, and depends on no way, nor on another "
       "mesh on it",
       15, kEndless, false, generated<"redistribute">, judge_redistribute},
      {"ragged",
       "ops on tensors that lie in the same blocks give the oracle's bits, and nothing moves that need not",
       8, kEndless, false, generated<"ragged">, judge_ragged},
      {"overlap",
       "redistributions begun and waited for late, in another order or never give the bits of those that "
       "wait",
       3, kEndless, false, generated<"overlap">, judge_overlap, Flag::kOverlap},
      {"ops", "one op on any placements gives the oracle's bits, bypassed or not", 60, kEndless, false,
       generated<"ops">, judge_bypassed},
      {"rules", "every row of an op's rule is true, and its bypasses; true rows that are missing are named",
       3, kEndless, false, rules_case, judge_rules, Flag::kRules},
      {"gradient", "the gradient of one op gives the oracle's bits for each leaf", 20, kEndless, false,
       generated<"gradient">, judge_program},
      {"random", "random ops draw the single device's stream whatever the sharding", 8, kEndless, false,
       generated<"random">, judge_program},
      {"grid",
       "eight random operators draw the single device's stream in every size, dimension and pair of them", 2,
       grid_cases(), false, grid_case, judge_grid},
      {"program", "a program of several ops, forward and backward, gives the oracle's bits for every value",
       30, kEndless, false, generated<"program">, judge_program},
      {"metamorphic", "rank numbers, names and mesh dimensions of one change nothing; one rank is one device",
       6, kEndless, false, generated<"metamorphic">, judge_metamorphic},
      {"edges", "programs that leave their DTensors and compute with plain tensors give the oracle's bits",
       12, kEndless, false, generated<"edges">, judge_bypassed},
      {"cache", "an op gives the same bits and moves whatever was decided before", 12, kEndless, false,
       generated<"cache">, judge_cache},
  };
}

// Whose cases are values of their own.
std::vector<Suite> of_values() {
  return {
      {"train",
       "a training step on a mesh is what one device computes from the same state, and that what the papers' "
       "formulas say",
       1, train_cases(), false, train_case, judge_train, Flag::kTraining, check_train, simpler_train,
       run_train},
      {"fsdp",
       "steps of modules under fully_shard, in any wrapping and schedule, are what one device computes", 8,
       kEndless, false, fsdp_case, judge_fsdp, Flag::kTraining, check_fsdp, simpler_fsdp, run_fsdp},
      {"dbuffer",
       "the buffer of a group gathers what each rank is to hold and reduces what pends, in its declared "
       "order",
       8, kEndless, false, dbuffer_case, judge_dbuffer, Flag::kTraining, check_dbuffer, simpler_dbuffer,
       run_dbuffer},
      {"optim",
       "steps of optimizers that look at tiles or whole matrices are what one device computes, however these "
       "are cut",
       6, kEndless, false, optim_case, judge_optim, Flag::kTraining, check_optim, simpler_optim, run_optim},
      {"experts", "a mixture of experts gives one device's bits for any routing, wherever its experts are", 5,
       kEndless, false, experts_case, judge_experts, Flag::kTraining, check_experts, simpler_experts,
       run_experts},
      {"plans",
       "a model under a plan is what one device computes, its tensors where the rows say; in buffers, and "
       "optimized, it has the same bits and moves no more",
       8, kEndless, false, plans_case, judge_plans, Flag::kTraining, check_plans, simpler_plans, run_plans},
      {"checkpoint",
       "tensors saved from any placements are the same loaded into any others, or what is harmed is refused",
       6, kEndless, false, checkpoint_case, judge_checkpoint, Flag::kTraining, check_checkpoint,
       simpler_checkpoint, run_checkpoint},
      {"planner",
       "shards that are planned for a group of tensors cut no block, and are the least in their order", 8,
       kEndless, false, planner_case, judge_planner, Flag::kTraining, check_planner, simpler_planner},
      {"golden", "what stock libtorch drew on a GPU is what closed form and simulation draw, whole and cut",
       4, golden_cases(), false, golden_case, judge_golden, Flag::kClosedForm, check_golden, simpler_golden},
  };
}

std::vector<Suite> of_itself() {
  return {
      {"faults", "every planted fault is found and shrunk within its stated numbers", 1,
       static_cast<int64_t>(faults().size()), true, fault_case, judge_fault, Flag::kFaults},
      {"canary", "one flipped bit is seen", 1, 40, true, canary_case, judge_canary},
  };
}

// 100 generated cases a round; the finite suites come on top.
const std::vector<Suite>& table() {
  static const auto all = [] {
    auto suites = of_programs();
    for (const auto& more : {of_values(), of_itself()}) suites.insert(suites.end(), more.begin(), more.end());
    return suites;
  }();
  return all;
}

}  // namespace

std::span<const Suite> suites() {
  return table();
}

const Suite& find_suite(std::string_view name) {
  std::string names;
  for (const auto& s : table()) {
    if (s.name == name) return s;
    names += concat(names.empty() ? "" : ", ", s.name);
  }
  throw Error(concat("[suites] no suite is called '", name, "'; there are: ", names));
}

RunInWorld run_in_world(const oracle::Case& c) {
  const auto is_it = [&](const Suite& suite) { return c.suite == suite.name; };
  const auto found = std::find_if(table().begin(), table().end(), is_it);
  return found == table().end() ? nullptr : found->run;
}

void check_case(const Suite& suite, const oracle::Case& c) {
  if (suite.check != nullptr) return suite.check(c);
  LOCKSTEP_CHECK(has_known_options(c), "[", suite.name, "] its cases have no options but ", kKnownOptions,
                 "; take the others out of ';options=…'");
}

Outcome judge_safely(const Suite& suite, const oracle::Case& c, EngineUnderTest& engine) {
  beat();
  try {
    if (!engine.profile().has(suite.needs)) return left_out(name(suite.needs));
    if (const auto lacking = lacks(engine.profile(), c); !lacking.empty()) return left_out(lacking);
    auto outcome = suite.judge(c, engine);
    // Where locals are not the engine's own memory, ranks are in another World.
    const bool elsewhere = suite.run != nullptr && !engine.profile().has(Flag::kMemory);
    const auto* passed = std::get_if<Passed>(&outcome);
    return elsewhere && passed != nullptr ? judged_elsewhere(c, engine, *passed) : outcome;
  } catch (const EngineFailure& e) {
    return failed_run(c, e);
  } catch (const c10::AcceleratorError& e) {
    // Nothing runs on the device any more: as a crash on the CPU does, it takes the process along.
    std::fprintf(stderr, "%s\n", e.what_without_backtrace());
    std::abort();
  } catch (const oracle::NoKernel& e) {
    return not_judged("no kernel of the device", e.what());
  } catch (const NotBuilt& e) {
    return GaveUp{*refusal_of(e, c), e.what()};
  } catch (const std::exception& e) {
    return HarnessBroken{e.what()};
  }
}

}  // namespace lockstep::suites
