// SPDX-License-Identifier: Apache-2.0
// A training step of small models: forward, backward, clipping, update. What fully_shard's buffer and plan
// spare a step (veScale-FSDP, Table 2) is counted here, and timed by ci/numbers --ablation.
#include <memory>
#include <span>

#include "dashboard/store/rows.h"
#include "engine/values/error.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/engines/counting_world.h"
#include "suites/train/step_judgement.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

// What a step needs, the World that counts included.
struct Training {
  Traffic traffic;
  TrainOptions options;
  std::string text;
  std::unique_ptr<Trainer> trainer;
  Batch batch;

  void step() const { trainer->step(batch); }
};

TrainOptions small_step(const char* mesh, int64_t batch = 2) {
  TrainOptions options;
  options.batch = batch;
  options.sequence = 8;
  options.mesh = parse_mesh(mesh);
  return options;
}

std::shared_ptr<Training> start_training(const TrainOptions& options) {
  auto s = std::make_shared<Training>();
  s->options = options;
  s->options.world = counting(local_world(s->options.mesh->size()), s->traffic);
  s->text = read_text("", static_cast<size_t>(s->options.sequence) + 1);
  s->trainer = std::make_unique<Trainer>(s->options);
  s->trainer->init();
  s->batch = s->trainer->batch(s->text, 1);
  s->step();  // decides every placement
  return s;
}

void check(const char* mesh, Training& s) {
  auto judged = s.options;
  judged.world = nullptr;
  generator() = {{s.options.seed + 1, 0}, s.options.device};
  const auto before = s.trainer->state();
  const auto result = s.trainer->step(s.trainer->batch(s.text, 1));
  auto measured = measure(s.options, result.loss, result.norm);
  measured.step = 1;
  const auto judgement = judge_step(judged, s.text, before, measured);
  if (judgement.verdict >= dashboard::Verdict::kNondeterministic)
    throw WrongBits(std::string("[training step on ") + mesh + "] " + judgement.text);
}

Prepared timed(const char* mesh) {
  auto s = start_training(small_step(mesh));
  return {[mesh, s] { check(mesh, *s); },
          [s](double least) { return 1e3 * seconds_per_call([&] { s->step(); }, least); },
          [s] { s->step(); }};
}

Prepared counted(const TrainOptions& options, double (*count)(Training&)) {
  return {[] {}, [s = start_training(options), count](double) { return count(*s); }};
}

template <int64_t Traffic::*what>
double traffic(Training& s) {
  s.traffic = {};
  s.step();
  return static_cast<double>(s.traffic.*what);
}
double allocations(Training& s) {
  return tensor_allocations([&] { s.step(); });
}
double decided_again(Training& s) {
  return decisions([&] { s.step(); });
}

struct Count {
  const char *what, *unit;
  double (*count)(Training&);
};
const Count kCounts[] = {{"collectives", "1", traffic<&Traffic::calls>},
                         {"bytes", "B", traffic<&Traffic::bytes>},
                         {"tensor allocations", "1", allocations},
                         {"decisions after the first step", "1", decided_again}};
// Where tokens go decides anew how experts' rows lie.
const auto kOfEveryStep = std::span(kCounts).first(3);

// Experts, 8-bit AdamW: what blocks are planned for.
TrainOptions ablated_step(Without without) {
  auto options = small_step("fsdp:4", 4);
  options.model = "mixtral";
  options.preset = "gpt-oss";
  options.optimizer = OptimizerKind::kAdamW8bit;
  options.without = without;
  return options;
}

void add_counts(Bodies& bodies, const std::string& step, const std::function<TrainOptions()>& options,
                std::span<const Count> counts = kCounts) {
  for (const auto& c : counts)
    bodies.push_back({{step + ": " + c.what, "training", true, false, c.unit},
                      [options, &c] { return counted(options(), c.count); }});
}

}  // namespace

void add_training(Bodies& bodies) {
  for (const auto* mesh : {"tp:1", "tp:2", "dp:2,tp:2", "fsdp:2"}) {
    const auto name = std::string("training step, llama tiny on ") + mesh;
    bodies.push_back({{name, "training", false, false, "ms"}, [mesh] { return timed(mesh); }});
    add_counts(bodies, name, [mesh] { return small_step(mesh); });
  }
  for (const auto without : {Without::kNothing, Without::kDBuffer, Without::kPlanning})
    add_counts(
        bodies, concat("training step, mixtral gpt-oss on fsdp:4, without ", name(without)),
        [without] { return ablated_step(without); }, kOfEveryStep);
}

}  // namespace lockstep::suites
