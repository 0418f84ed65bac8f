// SPDX-License-Identifier: Apache-2.0
// A training step on one rank, rung by rung (veScale, Figures 2b and 11): plain libtorch, the engine without
// cache and bypass, as it is, and with static passes. All begin with the same values and do the same steps.
#include <ATen/ATen.h>

#include <memory>

#include "engine/static_eager/static_eager.h"
#include "engine/values/error.h"
#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/bench/switches.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

struct Model {
  const char *name, *architecture, *preset;
};
const Model kModels[] = {
    {"llama tiny", "llama", "tiny"}, {"llama wide", "llama", "wide"}, {"mixtral tiny", "mixtral", "tiny"}};
constexpr double kQuick = 0.005;  // samples of less than this only show that it runs: on a tiny model

enum class Rung { kPlain, kNeither, kCached, kStatic };
const std::pair<Rung, const char*> kRungs[] = {{Rung::kPlain, "plain libtorch"},
                                               {Rung::kNeither, kNeither.name},
                                               {Rung::kCached, "cached"},
                                               {Rung::kStatic, "static"}};

TrainOptions options_of(const Model& model, bool quick, bool on_mesh) {
  TrainOptions options;
  options.model = model.architecture;
  options.preset = quick ? "tiny" : model.preset;
  options.batch = 2;
  options.sequence = 32;
  options.dropout = 0;
  if (on_mesh) options.mesh = parse_mesh("tp:1");
  return options;
}

struct Training {
  explicit Training(const TrainOptions& options) : trainer(options) {}
  void begin(const TrainState& state) {
    trainer.load(state);
    batch = trainer.batch(text, 1);
  }
  void step() { trainer.step(batch); }

  const std::string text = read_text("", 33);
  Trainer trainer;
  Batch batch;
};

// A model in training by plain libtorch and by the engine.
struct Both {
  Both(const Model& model, bool quick)
      : plain(options_of(model, quick, false)), placed(options_of(model, quick, true)) {
    placed.trainer.init();
    start = placed.trainer.state();
    plain.begin(start);
    placed.begin(start);
  }
  Training plain, placed;
  TrainState start;
};

// The last one asked for: a process measures the rungs of a model in turn, and a wide one is a gigabyte. It
// is left to the end of the process, where nothing that it stands on would outlive it.
Both& both(const Model& model, bool quick) {
  static std::pair<const Model*, bool> which;
  static auto& last = *new std::unique_ptr<Both>();
  if (const std::pair asked(&model, quick); last == nullptr || which != asked) {
    last.reset();
    last = std::make_unique<Both>(model, quick);
    which = asked;
  }
  return *last;
}

// While alive, the rung's training runs in its way.
class On {
 public:
  On(Both& of, Rung rung) : training(rung == Rung::kPlain ? of.plain : of.placed) {
    if (rung == Rung::kNeither) only_.emplace(kNeither);
    if (rung == Rung::kStatic) static_ = training.trainer.static_passes(training.batch);
  }
  Training& training;
  int64_t static_calls() const { return static_->static_calls(); }
  const auto& eager_calls() const { return static_->eager_calls(); }

 private:
  std::optional<Only> only_;
  std::unique_ptr<StaticEager> static_;
};

// Loss, norm and parameters of the first step.
std::vector<at::Tensor> first_step(Training& training, const TrainState& start) {
  training.begin(start);
  const auto result = training.trainer.step(training.batch);
  const auto whole = [](const at::Tensor& t) { return is_dtensor(t) ? full_tensor(t) : t; };
  std::vector<at::Tensor> all{whole(result.loss), whole(result.norm)};
  const auto state = training.trainer.state();
  all.insert(all.end(), state.parameters.begin(), state.parameters.end());
  return all;
}

void check(const Model& model, Rung rung) {
  const auto who = concat("training step of ", model.name);
  auto& of = both(model, true);
  const auto expected = first_step(of.plain, of.start);
  const On on(of, rung);
  check_bits(who, expected, first_step(on.training, of.start));
  if (rung != Rung::kStatic) return;
  if (on.static_calls() == 0) throw WrongBits(concat("[", who, "] nothing of it runs statically"));
  for (const auto& [why, times] : on.eager_calls())
    throw WrongBits(concat("[", who, "] runs eagerly ", times, " times: ", why));
}

Prepared timed(const Model& model, Rung rung) {
  return {[&model, rung] { check(model, rung); },
          [&model, rung](double least) {
            auto& of = both(model, least < kQuick);
            const On on(of, rung);
            on.training.begin(of.start);
            return 1e3 * seconds_per_call([&] { on.training.step(); }, least);
          }};
}

// In turns, so that what slows the one slows the other.
Prepared beside_plain(const Model& model) {
  return {[&model] { check(model, Rung::kStatic); },
          [&model](double least) {
            auto& of = both(model, least < kQuick);
            const On on(of, Rung::kStatic);
            const auto plain = [&] { of.plain.step(); };
            of.plain.begin(of.start);
            of.placed.begin(of.start);
            return 1 +
                   seconds_above([&] { on.training.step(); }, plain, least) / seconds_per_call(plain, least);
          }};
}

}  // namespace

void add_training_rungs(Bodies& bodies) {
  for (const auto& model : kModels) {
    const auto name = concat("training step of ", model.name, ", ");
    for (const auto& [rung, how] : kRungs)
      bodies.push_back(
          {{name + how, "training", false, false, "ms"}, [&model, r = rung] { return timed(model, r); }});
    bodies.push_back({{name + "static: times plain libtorch", "training", false, false, "1"},
                      [&model] { return beside_plain(model); }});
  }
}

}  // namespace lockstep::suites
