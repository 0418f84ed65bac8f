// SPDX-License-Identifier: Apache-2.0
// lockstep show layout | route | rules | random | buffer | flight | shards | plan: parses the text forms and
// calls the engine; what is printed is what the engine does, by the same code.
#include <cstdio>
#include <optional>

#include "ci/program/commands.h"
#include "ci/program/numbers.h"
#include "ci/program/show.h"
#include "engine/values/error.h"
#include "suites/fsdp/model_table.h"
#include "suites/golden/stock_op.h"

namespace lockstep::program {
namespace {

struct Flags {
  ShowRequest request;
  bool json = false;
  std::optional<Lane> lane() const {
    return request.step.calibrate ? std::optional(Lane::kExact) : std::nullopt;
  }
};

// What --json and the text of an answer have in common.
template <Shown (*answer)(const ShowRequest&)>
int print(const Flags& flags) {
  const auto shown = answer(flags.request);
  std::printf("%s\n", flags.json ? shown.json.dump(2).c_str() : shown.text.c_str());
  return 0;
}

// What each argument means stands in PyTorch's documentation; here, who takes it.
void add_random_arguments(CLI::App& random, ShowRequest& r) {
  std::map<std::string, std::map<std::string, std::string>> takers;  // argument -> default -> operators
  for (const auto& op : suites::stock_ops())
    for (const auto& [name, value] : op.arguments) {
      if (name.empty()) break;
      auto& names = takers[std::string(name)][std::string(value)];
      names += concat(names.empty() ? "" : ", ", op.name);
    }
  for (const auto& [name, defaults] : takers) {
    std::string help;
    for (const auto& [value, names] : defaults)
      help +=
          concat(help.empty() ? "Of " : "; of ", names, " (default ", value.empty() ? "none" : value, ")");
    const auto keep = [&r, name = name](const std::string& value) { r.arguments[name] = value; };
    random.add_option_function<std::string>("--" + name, keep, help)->group("Arguments of the operator");
  }
}

void add_random_options(CLI::App& random, ShowRequest& r) {
  std::string names;
  for (const auto& op : suites::stock_ops()) names += concat(names.empty() ? "" : ", ", op.name);
  random.add_option("op", r.op, names)->required();
  random.add_option("shape", r.shape, "Shape; of randperm its length, of multinomial that of the weights")
      ->required();
  random.add_option("--seed", r.seed, "Seed of the stream (default 0)")->check(whole_number());
  random.add_option("--offset", r.offset, "Offset of the stream, a multiple of 4 (default 0)")
      ->check(whole_number());
  random.add_option("--device-model", r.device, "Multiprocessors x threads of each (default 132x2048)");
  random.add_option("--placements", r.placements, "Placements (default: all R)");
  random.add_option("--stride", r.stride,
                    "Strides of the tensor that is filled, for example 1x4 (default: contiguous)");
  random.add_option("--first", r.first, "Print only so many values (the digests are of all)");
  random.add_option("--at", r.at, "Print only these elements, by row-major number: 0,270336");
  add_random_arguments(random, r);
}

void add_step_options(CLI::App& buffer, CLI::Option* step, ShowRequest& r) {
  const auto add = [&](CLI::Option* option) { option->needs(step)->group("Of a step"); };
  add(buffer
          .add_option("--replicas", r.step.replicas,
                      "HSDP: how often the same parameters are there; a divisor of --ranks (default 1)")
          ->check(whole_count()));
  add(buffer.add_option("--dtype", r.dtype, "Of parameters: f64 f32 bf16 f16 (default f32)"));
  add(buffer.add_option("--param-dtype", r.step.param_dtype,
                        "In which they are gathered (default: their own)"));
  add(buffer.add_option("--reduce-dtype", r.step.reduce_dtype,
                        "In which gradients are reduced (default: that in which they are gathered)"));
  add(buffer.add_option("--reshard-after-forward", r.step.reshard_after_forward,
                        "As fully_shard is told: true, false, none (but for the outermost module), or among "
                        "how many ranks (default true)"));
  add(buffer
          .add_option("--prefetch", r.step.prefetch,
                      "How many modules each one is told to prefetch, forward and backward (default 0; one "
                      "backward it prefetches untold)")
          ->check(whole_number()));
  add(buffer.add_option("--scaling", r.step.scaling,
                        "weak or strong: how a step grows from 8 ranks to 1,024, predicted"));
  add(buffer
          .add_option("--tokens", r.step.tokens,
                      "Tokens of a rank in a step; of --scaling strong, on 8 ranks (default 4096)")
          ->check(whole_count()));
  add(buffer.add_flag(
      "--calibrate", r.step.calibrate,
      "Measure steps of a small LLaMA on 4 and 8 ranks here, predict one on 64 and measure it "
      "too; --scaling then says seconds"));
}

void add_buffer_options(CLI::App& buffer, ShowRequest& r) {
  std::string models;
  for (const auto& model : suites::model_tables()) models += concat(models.empty() ? "" : ", ", model.name);
  buffer.add_option("--model", r.model, models);
  buffer.add_option("--tensors", r.tensors,
                    "Or tensors, each as elements:granularity, for example 20:2,6:6,11:1");
  buffer.add_option("--ranks", r.buffer.shards, "Ranks that share the buffer (default 1)");
  buffer.add_option(
      "--block-rows", r.block_rows,
      "Of a model: rows of a block, of the matrices of its experts, or where there are none of its "
      "MLPs (default 1)");
  buffer.add_option(
      "--block-tile", r.block_tile,
      "Or tiles, as rows x columns, for example 128x128: rows of them begin anew in each of the "
      "matrices that are stacked in a tensor, as experts may be");
  buffer.add_flag("--dense-too", r.dense_too,
                  "Of a model with experts: its dense MLPs have such blocks, too");
  auto* align = buffer.add_option("--align", r.buffer.alignment,
                                  "Elements that a shard's size is a multiple of (default 8)");
  auto* start =
      buffer.add_option("--start-align", r.buffer.start_align,
                        "Elements that every start, and so a shard's size, is a multiple of (default 1)");
  buffer.add_option_function<std::string>(
      "--order", [&r](const std::string& text) { r.buffer.order = fsdp::parse_order(text); },
      "default, block, shape or best");
  auto* step = buffer.add_flag("--step", r.step.on,
                               "What a training step under fully_shard sends and holds, predicted; tensors "
                               "start at multiples of 64 bytes, and so do shards");
  step->excludes(align)->excludes(start);
  add_step_options(buffer, step, r);
}

void add_mesh(CLI::App& app, ShowRequest& r) {
  app.add_option("--mesh", r.mesh, "Mesh, for example 2x4 or dp:2,tp:4");
  app.add_option("--dtype", r.dtype,
                 "f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool (default f32; of integers i64)");
}

}  // namespace

void add_show(CLI::App& app, Chosen& chosen) {
  auto& show = *app.add_subcommand(
      "show",
      "Show what the engine does: layouts, routes, rules, random values, plans, flights, checkpoints");
  show.require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*run)(const Flags&)) {
    auto [sub, flags] = add_command(show, chosen, name, help, run);
    sub.add_flag("--json", flags.json, "Print JSON");
    return std::pair<CLI::App&, ShowRequest&>(sub, flags.request);
  };

  auto [layout, l] = add("layout", "What each rank holds of a tensor", print<show_layout>);
  layout.add_option("shape", l.shape, "Shape, for example 7x13")->required();
  layout.add_option("--placements", l.placements, "For example [S0,R]")->required();
  layout.add_flag("--table", l.table, "Which ranks hold what, as a table of rows and columns, too");
  add_mesh(layout, l);

  auto [route, o] = add("route", "The steps of a redistribution and their bytes", print<show_route>);
  route.add_option("shape", o.shape, "Shape")->required();
  route.add_option("--from", o.placements, "Placements before")->required();
  route.add_option("--to", o.to, "Placements after")->required();
  add_mesh(route, o);
  route.add_option("--to-mesh", o.to_mesh, "Mesh after, of as many ranks, fewer or more (default: --mesh)");

  auto [rules, u] = add("rules", "The rows of an operator over one mesh dimension", print<show_rules>);
  rules.add_option("op", u.op, "Operator, for example aten::mm")->required();

  auto [random, a] = add("random", "The values that a random operator draws", print<show_random>);
  add_random_options(random, a);
  add_mesh(random, a);

  auto [buffer, b] = add("buffer", "Where the tensors of a group lie in the buffer that ranks share evenly",
                         print<show_buffer>);
  add_buffer_options(buffer, b);

  auto [flight, f] =
      add("flight", "What ranks did last, and the first exchange in which they part", print<show_flight>);
  flight.add_option("files", f.files, "Files of flights, one for each rank")->required();

  auto [shards, c] = add("shards", "What a checkpoint has, in which files", print<show_shards>);
  shards.add_option("path", c.path, "Its folder, or a safetensors file")->required();
  shards.add_flag("--verify", c.verify, "Read all of it, and hold it against the digests of what was saved");

  auto [plan, p] = add("plan", "Where a model's tensors go, and what moves them when", print<show_plan>);
  plan.add_option("model", p.model, "llama, mixtral or gpt2")->required();
  plan.add_option("--preset", p.preset,
                  "tiny (default) or odd; of llama wide and 8b, of mixtral gpt-oss, of gpt2 124m, too");
  plan.add_option("--mesh", p.mesh, "For example tp:2 or fsdp:2,tp:2")->required();
  plan.add_option("--plan", p.path, "File of a plan, in place of the model's own");
  plan.add_flag("--hooks", p.hooks, "What the rows do to each module, too");
}

}  // namespace lockstep::program
