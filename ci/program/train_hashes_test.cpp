// SPDX-License-Identifier: Apache-2.0
// Two trainings that part, localized from the digests that each logged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "ci/curves/localize.h"
#include "engine/world/world.h"
#include "suites/core/hash_log.h"
#include "suites/faults/wrap.h"
#include "suites/train/text.h"
#include "suites/train/train.h"

namespace lockstep::program {
namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lockstep-train-hashes-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

constexpr int64_t kFaulty = 2;

// Three steps on tp:2. From the collectives of step kFaulty on, what is sent to other ranks is spoilt if
// asked.
std::vector<suites::TrainStep> train(const std::string& log, bool spoil, std::map<int64_t, size_t>& entries) {
  suites::TrainOptions options;
  options.steps = 3;
  options.batch = 2;
  options.sequence = 16;
  options.mesh = parse_mesh("tp:2");
  int64_t step = 0;
  suites::WorldFault fault;
  fault.sent = [&](const at::Tensor& sent) {
    return spoil && step + 1 == kFaulty && sent.is_floating_point() ? sent * 2 : sent;
  };
  options.world = suites::spoilt_world(local_world(2), fault);
  suites::HashLog hashes(log);
  suites::TrainObserver observer;
  observer.on_timeline = [&](int64_t at, const Timeline& timeline) {
    entries[at] = timeline.size();
    hashes.write(at, timeline);
  };
  observer.on_step = [&](const suites::TrainStep& s) { step = s.step; };
  const auto steps = suites::train(options, suites::read_text("", 17), observer);
  hashes.close();
  return steps;
}

// Catches: a log that lacks a step or the drawing of first values, one that changes what is computed, a step
// that is logged under another number, and an op that only read the spoilt values named as the one at fault.
TEST(TrainHashes, TheFirstDifferingOpOfTheFirstDifferingStep) {
  const Folder folder;
  std::map<int64_t, size_t> entries;
  const auto good = train(folder / "good.jsonl", false, entries);
  for (const int64_t step : {0, 1, 2, 3}) EXPECT_GT(entries[step], 10U) << step;
  const auto again = train(folder / "again.jsonl", false, entries);
  const auto same = curves::localize(folder / "good.jsonl", folder / "again.jsonl");
  EXPECT_EQ(same.steps, 4);
  EXPECT_FALSE(same.row.step) << same.text;
  EXPECT_GT(same.row.compared, static_cast<int64_t>(2 * (entries[0] + entries[1] + entries[2])));

  const auto bad = train(folder / "bad.jsonl", true, entries);
  EXPECT_EQ(good.at(0).chain, bad.at(0).chain);
  EXPECT_NE(good.at(1).chain, bad.at(1).chain);
  const auto found = curves::localize(folder / "good.jsonl", folder / "bad.jsonl");
  EXPECT_EQ(found.row.step, kFaulty) << found.text;
  EXPECT_EQ(found.row.op, "lockstep::redistribute") << found.text;
  EXPECT_EQ(found.row.what, "output") << found.text;
}

// Catches: a training that is other for being watched.
TEST(TrainHashes, LoggingChangesNoBit) {
  const Folder folder;
  std::map<int64_t, size_t> entries;
  suites::TrainOptions options;
  options.steps = 3;
  options.batch = 2;
  options.sequence = 16;
  options.mesh = parse_mesh("tp:2");
  const auto plain = suites::train(options, suites::read_text("", 17));
  EXPECT_EQ(plain.back().chain, train(folder / "log.jsonl", false, entries).back().chain);
}

}  // namespace
}  // namespace lockstep::program
