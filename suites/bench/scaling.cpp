// SPDX-License-Identifier: Apache-2.0
// How the processor time of a training step, all ranks together, grows with the ranks that this process
// hosts, when the model or its batch grows with them: as an exponent, and at each number of ranks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "engine/values/error.h"
#include "suites/bench/body.h"
#include "suites/bench/step_time.h"
#include "suites/train/step_judgement.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kRanks[] = {4, 8, 16, 32, 64, 128, 256};
constexpr int64_t kShown[] = {1, 4, 16, 64, 256, 1024};
constexpr int64_t kMostOfAQuickRun = 64;  // in samples of less than this, which only show that it runs
constexpr int64_t kShownOfAQuickRun = 4;
constexpr double kQuick = 0.005;

// The two factors of the ranks: n is a power of two.
struct Way {
  const char* name;
  int64_t (*tp)(int64_t n);
};
const Way kWays[] = {
    {"tp", [](int64_t n) { return n; }},
    {"dp", [](int64_t) -> int64_t { return 1; }},
    {"dp and tp", [](int64_t n) { return int64_t{1} << (std::bit_width(static_cast<uint64_t>(n)) / 2); }}};

// A rank of tp has two heads of eight features, the key and value of one, and 64 features of the MLP; a rank
// of dp two examples. Hidden size and sequence stay.
TrainOptions options_of(const Way& way, int64_t ranks) {
  const int64_t tp = way.tp(ranks), dp = ranks / tp;
  TrainOptions options;
  options.sizes = ModelOptions{.heads = 2 * tp, .kv_heads = tp, .head = 8, .mlp = 64 * tp};
  options.batch = 2 * dp;
  options.sequence = 8;
  if (dp == 1 || tp == 1)
    options.mesh = DeviceMesh({ranks}, {tp == 1 ? "dp" : "tp"});
  else
    options.mesh = DeviceMesh({dp, tp}, {"dp", "tp"});
  return options;
}

constexpr int kSteps = 3;

// Of least squares through the logarithms.
double exponent(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [ranks, seconds] : points) {
    const double lx = std::log(ranks), ly = std::log(seconds);
    x += lx, y += ly, xx += lx * lx, xy += lx * ly;
  }
  const auto n = static_cast<double>(points.size());
  return (n * xy - x * y) / (n * xx - x * x);
}

void check(const Way& way) {
  auto options = options_of(way, kRanks[0]);
  const auto text = read_text("", static_cast<size_t>(options.sequence) + 1);
  Trainer trainer(options);
  trainer.init();
  const auto before = trainer.state();
  const auto result = trainer.step(trainer.batch(text, 1));
  auto measured = measure(options, result.loss, result.norm);
  measured.step = 1;
  if (const auto judged = judge_step(options, text, before, measured);
      judged.verdict >= dashboard::Verdict::kNondeterministic)
    throw WrongBits(std::string("[hosted ranks, ") + way.name + "] " + judged.text);
}

Prepared prepare(const Way& way) {
  return {[&way] { check(way); },
          [&way](double least) {
            std::vector<std::pair<double, double>> points;
            for (const int64_t n : kRanks)
              if (n <= kMostOfAQuickRun || least >= kQuick)
                points.emplace_back(static_cast<double>(n), step_seconds(options_of(way, n), kSteps));
            return exponent(points);
          }};
}

}  // namespace

void add_scaling(Bodies& bodies) {
  for (const auto& way : kWays)
    for (const int64_t ranks : kShown)
      bodies.push_back({{concat("hosted ranks, ", way.name, ", ", ranks, " of them: a step"), "training",
                         false, false, "ms"},
                        [&way, ranks] {
                          return Prepared{[&way] { check(way); },
                                          [&way, ranks](double least) {
                                            const auto n =
                                                least < kQuick ? std::min(ranks, kShownOfAQuickRun) : ranks;
                                            return 1e3 * step_seconds(options_of(way, n), kSteps);
                                          }};
                        }});
  for (const auto& way : kWays)
    bodies.push_back({{std::string("hosted ranks, 4 to 256 of ") + way.name + ": exponent of a step's time",
                       "training", false, false, "1"},
                      [&way] { return prepare(way); }});
}

}  // namespace lockstep::suites
