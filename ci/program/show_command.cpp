// SPDX-License-Identifier: Apache-2.0
// lockstep show layout | route | rules | random | plan | shards: parses the text forms and calls the engine;
// what is printed is what the engine does, by the same code.
#include <cstdio>

#include "ci/program/commands.h"
#include "ci/program/show.h"
#include "engine/values/error.h"

namespace lockstep::program {
namespace {

struct Flags {
  ShowRequest request;
  bool json = false;
};

void print(const Shown& shown, bool json) {
  std::printf("%s\n", json ? shown.json.dump(2).c_str() : shown.text.c_str());
}

// One sub-command of show: its options, and the function that answers it.
CLI::App* add(CLI::App& show, Chosen& chosen, const char* name, const char* help,
              std::shared_ptr<Flags> flags, Shown (*answer)(const ShowRequest&)) {
  auto* sub = show.add_subcommand(name, help);
  sub->add_flag("--json", flags->json, "Print JSON");
  sub->callback([&chosen, flags, answer] {
    chosen.json = flags->json;
    chosen.action = [flags, answer] {
      print(answer(flags->request), flags->json);
      return 0;
    };
  });
  return sub;
}

Shown not_built(const char* what) {
  throw NotBuilt(concat("[show] ", what, kNotAvailable, "; layout, route, rules and random are"));
}

}  // namespace

void add_show(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  auto& r = flags->request;
  auto* show = app.add_subcommand("show", "Show what the engine does: layouts, routes, rules, random values");
  show->require_subcommand(1);

  auto* layout = add(*show, chosen, "layout", "What each rank holds of a tensor", flags, show_layout);
  layout->add_option("shape", r.shape, "Shape, for example 7x13")->required();
  layout->add_option("--placements", r.placements, "For example [S0,R]")->required();

  auto* route =
      add(*show, chosen, "route", "The steps of a redistribution and their bytes", flags, show_route);
  route->add_option("shape", r.shape, "Shape")->required();
  route->add_option("--from", r.placements, "Placements before")->required();
  route->add_option("--to", r.to, "Placements after")->required();

  auto* rules =
      add(*show, chosen, "rules", "The rows of an operator over one mesh dimension", flags, show_rules);
  rules->add_option("op", r.op, "Operator, for example aten::mm")->required();

  auto* random = add(*show, chosen, "random", "The values that a random operator draws", flags, show_random);
  random->add_option("op", r.op, "uniform_, normal_, bernoulli_, randint, dropout, rand, randn")->required();
  random->add_option("shape", r.shape, "Shape")->required();
  random->add_option("--seed", r.seed, "Seed of the stream (default 0)");
  random->add_option("--offset", r.offset, "Offset of the stream, a multiple of 4 (default 0)");
  random->add_option("--device-model", r.device, "Multiprocessors x threads of each (default 132x2048)");
  random->add_option("--placements", r.placements, "Placements (default: all R)");
  random->add_option("--p", r.p, "Probability, for bernoulli_ and dropout (default 0.5)");
  random->add_option("--low", r.low, "Least value, for randint");
  random->add_option("--high", r.high, "End of values, for randint (default 10)");

  for (auto* sub : {layout, route, random}) {
    sub->add_option("--mesh", r.mesh, "Mesh, for example 2x4 or dp:2,tp:4");
    sub->add_option("--dtype", r.dtype, "f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool (default f32)");
  }
  add(*show, chosen, "plan", "The plan of a module", flags, [](const ShowRequest&) {
    return not_built("plan");
  })->allow_extras();
  add(*show, chosen, "shards", "The shards of a checkpoint", flags, [](const ShowRequest&) {
    return not_built("shards");
  })->allow_extras();
}

}  // namespace lockstep::program
