// SPDX-License-Identifier: Apache-2.0
// A training step of the small model: forward, backward, clipping, update.
#include <memory>

#include "dashboard/store/rows.h"
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

std::shared_ptr<Training> start_training(const char* mesh) {
  auto s = std::make_shared<Training>();
  s->options.batch = 2;
  s->options.sequence = 8;
  s->options.mesh = parse_mesh(mesh);
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
  auto s = start_training(mesh);
  return {[mesh, s] { check(mesh, *s); },
          [s](double least) { return 1e3 * seconds_per_call([&] { s->step(); }, least); },
          [s] { s->step(); }};
}

Prepared counted(const char* mesh, double (*count)(Training&)) {
  return {[] {}, [s = start_training(mesh), count](double) { return count(*s); }};
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

}  // namespace

void add_training(Bodies& bodies) {
  for (const auto* mesh : {"tp:1", "tp:2", "dp:2,tp:2", "fsdp:2"}) {
    const auto name = std::string("training step, llama tiny on ") + mesh;
    bodies.push_back({{name, "training", false, false, "ms"}, [mesh] { return timed(mesh); }});
    for (const auto& c : kCounts)
      bodies.push_back({{name + ": " + c.what, "training", true, false, c.unit},
                        [mesh, &c] { return counted(mesh, c.count); }});
  }
}

}  // namespace lockstep::suites
