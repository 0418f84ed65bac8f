// SPDX-License-Identifier: Apache-2.0
// What the buffers of published models have of padding, and how long it takes to plan them, each group by
// itself (veScale-FSDP, Figure 11 and structure-aware planning). README's table has more ranks, and others.
#include "oracle/reference/planner.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/fsdp/model_table.h"

namespace lockstep::suites {
namespace {

struct Asked {
  const ModelTable& model;
  Coarse coarse;
  fsdp::PlanOptions options;

  ModelPlan plan() const { return plan_model(model, coarse, options); }
};

void check_lawful(const Asked& asked) {
  for (const auto& made : asked.plan().groups) {
    std::vector<oracle::Blocks> tensors;
    for (const auto& t : blocks_of(asked.model, *made.group, asked.coarse))
      tensors.push_back({t.elements, t.granularity, t.period});
    std::vector<oracle::Place> places;
    for (const auto& interval : made.plan.intervals) places.emplace_back(interval.start, interval.end);
    const auto& o = asked.options;
    const auto why =
        oracle::unlawful(tensors, places, made.plan.shard_size, {o.shards, o.alignment, o.start_align});
    if (!why.empty()) throw WrongBits(asked.model.name + ", " + made.group->name + ": " + why);
  }
}

Prepared padding_of(const Asked& asked) {
  return {[asked] { check_lawful(asked); }, [asked](double) { return 1e2 * asked.plan().padding; }};
}

Prepared planned(const Asked& asked) {
  const auto each = [asked] {
    for (const auto& group : asked.model.groups)
      for (int64_t k = 0; k < group.count; ++k)
        fsdp::plan(blocks_of(asked.model, group, asked.coarse), asked.options);
  };
  return {[asked] { check_lawful(asked); },
          [each](double least) { return 1e3 * seconds_per_call(each, least); }, each};
}

}  // namespace

void add_padding(Bodies& bodies) {
  for (const auto& model : model_tables()) {
    for (const int64_t rows : {1, 16, 128})
      for (int64_t ranks = 8; ranks <= 1024; ranks *= 2) {
        const Asked asked{model, {.rows = rows}, {.shards = ranks}};
        bodies.push_back({{model.name + " in blocks of " + std::to_string(rows) + " rows on " +
                               std::to_string(ranks) + " ranks: padding",
                           "planner", true, false, "%"},
                          [asked] { return padding_of(asked); }});
      }
    const Asked asked{model, {.rows = 128}, {.shards = 1024}};
    bodies.push_back(
        {{"plan of " + model.name + " in blocks of 128 rows on 1024 ranks", "planner", false, false, "ms"},
         [asked] { return planned(asked); }});
  }
}

}  // namespace lockstep::suites
