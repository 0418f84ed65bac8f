// SPDX-License-Identifier: Apache-2.0
// The law: what the planner of fully_shard gives is a plan by the definition, and of the least shards in its
// order. planning.h says what a case is.
#include <algorithm>

#include "oracle/reference/planner.h"
#include "suites/core/judge.h"
#include "suites/fsdp/planning.h"
#include "suites/fsdp/sharded_fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

std::vector<oracle::Blocks> blocks_of(const Planning& p) {
  std::vector<oracle::Blocks> all;
  for (const auto& t : p.tensors) all.push_back({t.elements, t.granularity, t.period});
  return all;
}

int64_t least(const std::vector<oracle::Blocks>& tensors, fsdp::Order order,
              const oracle::ShardsAsked& asked) {
  const auto given = [&] { return oracle::least_size(tensors, asked); };
  const auto blocks = [&] { return oracle::least_size(oracle::by_block(tensors), asked); };
  const auto elements = [&] { return oracle::least_size(oracle::by_elements(tensors), asked); };
  switch (order) {
    case fsdp::Order::kDefault:
      return given();
    case fsdp::Order::kBlock:
      return blocks();
    case fsdp::Order::kShape:
      return elements();
    case fsdp::Order::kBest:
      return std::min({given(), blocks(), elements()});
  }
  return -1;
}

// A shard's elements of a tensor are as many of its blocks as its units say.
std::string wrong_units(const Planning& planning, const fsdp::BufferPlan& plan) {
  const auto tensors = blocks_of(planning);
  for (size_t i = 0; i < plan.intervals.size(); ++i) {
    const auto& [start, end] = plan.intervals[i];
    const auto counts = fsdp::units(planning.tensors[i], plan.intervals[i], plan);
    if (std::ssize(counts) != plan.shards) return concat("tensor ", i, " has ", counts.size(), " units");
    for (int64_t k = 0; k < plan.shards; ++k) {
      const int64_t from = std::clamp(k * plan.shard_size, start, end);
      const int64_t to = std::clamp((k + 1) * plan.shard_size, start, end);
      int64_t blocks = 0;
      for (int64_t at = from; at < to; ++at) blocks += oracle::begins(tensors[i], at - start);
      if (counts[static_cast<size_t>(k)] != blocks)
        return concat("shard ", k, " has ", to - from, " elements of tensor ", i, ", in ", blocks,
                      " blocks, and ", counts[static_cast<size_t>(k)], " units");
    }
  }
  return "";
}

}  // namespace

oracle::Case planner_case(uint64_t run_seed, int64_t index) {
  return case_of(any_planning(run_seed, index));
}

void check_planner(const oracle::Case& c) {
  planning_of(c);
}

std::vector<oracle::Case> simpler_planner(const oracle::Case& c) {
  return simpler_plannings(c);
}

// A plan is no Program that an engine under test could run.
Outcome judge_planner(const oracle::Case& c, EngineUnderTest& engine) {
  const auto planning = planning_of(c);
  const auto& o = planning.options;
  const auto fails = [](const char* verdict, const std::string& text) {
    return failed("planner", verdict, "", "-", "-", text);
  };
  auto plan = fsdp::plan(planning.tensors, o);
  if (const auto* fault = engine.sharded_fault(); fault != nullptr && fault->plan != nullptr)
    fault->plan(plan);
  const oracle::ShardsAsked asked{o.shards, o.alignment, o.start_align};
  const auto tensors = blocks_of(planning);
  std::vector<oracle::Place> places;
  for (const auto& interval : plan.intervals) places.emplace_back(interval.start, interval.end);
  if (const auto why = oracle::unlawful(tensors, places, plan.shard_size, asked); !why.empty())
    return fails("unlawful", why);
  if (const auto why = wrong_units(planning, plan); !why.empty()) return fails("units", why);
  const int64_t size = least(tensors, o.order, asked);
  if (plan.is_least && plan.shard_size != size)
    return fails("not least", concat("shards of ", plan.shard_size, " elements, and the least in order ",
                                     fsdp::name(o.order), " has ", size));
  if (plan.shard_size < size || plan.shard_size > 2 * size)
    return fails("size", concat("shards of ", plan.shard_size, ", which do not hold them or are more than ",
                                "twice the least, of ", size));
  int64_t elements = 0;
  for (const auto& t : planning.tensors) elements += t.elements;
  const int64_t bound = fsdp::least_shard_size(planning.tensors, o);
  if (bound * o.shards < elements || bound > least(tensors, fsdp::Order::kBest, asked))
    return fails("bound", concat("that no order has shards of fewer than ", bound, " elements is not so"));
  return Passed{};
}

}  // namespace lockstep::suites
