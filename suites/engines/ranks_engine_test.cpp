// SPDX-License-Identifier: Apache-2.0
// Ranks in processes give what all ranks in one thread give; processes that die, stall, skip, swap or meet
// the wrong ranks are found and named.
#include "suites/engines/ranks_engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/world/flight_log.h"
#include "generators/cases/metamorphic.h"
#include "generators/cases/programs.h"
#include "suites/core/judge.h"
#include "suites/core/no_processes.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

using Kind = EngineFailure::Kind;

std::function<CrewPtr()> crew(const std::string& mode, int64_t processes, double seconds, double start = 60) {
  return [=] { return start_crew({LOCKSTEP_RANKS_PEER, mode}, processes, seconds, start); };
}

// What is left of logs, to be removed.
int64_t remove_logs() {
  int64_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
    if (entry.path().filename().string().ends_with(".log"))
      found += std::filesystem::remove(entry.path()) ? 1 : 0;
  return found;
}

// The flights that are told of, read back.
std::vector<Flight> kept_flights() {
  std::vector<Flight> flights;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
    if (entry.path().extension() != ".flight") continue;
    std::ifstream in(entry.path());
    flights.push_back(parse_flight({std::istreambuf_iterator<char>(in), {}}, entry.path().string()));
  }
  EXPECT_EQ(flights.size(), 2u);
  return flights;
}

class RanksEngineTest : public testing::Test {
 protected:
  // Of its own, so that logs of other tests are none of ours.
  RanksEngineTest() : folder_(std::filesystem::temp_directory_path() / concat("ranks-test-", getpid())) {
    std::filesystem::create_directory(folder_);
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~RanksEngineTest() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

// Catches: whatever above World needs to host one rank or all; bits, digests, bytes or refusals that a
// process changes on the way; a World that hears of the one before.
TEST_F(RanksEngineTest, GivesWhatOneThreadGives) {
  for (const int64_t processes : {2, 3, 4, 8}) {
    int64_t compared = 0, refused = 0, hybrid = 0;
    RanksEngine engine(crew("well", processes, 60));
    for (const auto* suite : {"redistribute", "ops", "gradient", "random", "program", "edges"})
      for (uint64_t i = 0; i < 20; ++i) {
        auto c = generators::generate(suite, 17, i);
        if (i % 4 == 3) c = generators::ranks_of_larger_world(c, generators::Random(i));
        const auto what = oracle::to_token(c);
        Traffic sent, expected;
        std::optional<EngineResult> local;
        try {
          local = run_in(local_world(least_world(c.mesh)), c, oracle::make_inputs(c), true, expected);
        } catch (const Error& e) {
          ++refused;
          EXPECT_THROW(engine.run(c, true), std::runtime_error) << what;
          continue;
        }
        const auto got = engine.run(c, true, sent);
        EXPECT_EQ(first_disagreement(*local, got), "") << what;
        EXPECT_EQ(local->random_after, got.random_after) << what;
        EXPECT_EQ(local->bytes_moved, got.bytes_moved) << what;
        EXPECT_EQ(expected.sent, sent.sent) << what;
        ASSERT_EQ(local->timeline.size(), got.timeline.size()) << what;
        ++compared;
        hybrid += c.mesh.size() > processes ? 1 : 0;
      }
    EXPECT_GT(compared, 60);
    if (processes <= 3) {
      EXPECT_GT(hybrid, 20);
    }
  }
  EXPECT_EQ(remove_logs(), 0) << "logs are left where nothing was lost";
}

// Of suites whose cases are no Programs: the judge says the same, and each rank has sent as much. Catches: a
// training that looks only at what its process hosts, ranks that meet in another order than in one thread.
TEST_F(RanksEngineTest, TrainsAsOneThreadDoes) {
  for (const int64_t processes : {2, 3}) {
    RanksEngine engine(crew("well", processes, 60));
    LockstepEngine here;
    const std::vector<int64_t> rows{2, 14};  // of train: dp:2,tp:2 and fsdp:2,tp:2
    for (const auto& [name, cases] : {std::pair("dbuffer", 20),
                                      {"fsdp", 6},
                                      {"optim", 20},
                                      {"checkpoint", 30},
                                      {"experts", 30},
                                      {"plans", 30},
                                      {"train", 2}})
      for (int64_t n = 0; n < cases; ++n) {
        const int64_t i = name == std::string("train") ? rows[static_cast<size_t>(n)] : n;
        const auto& suite = find_suite(name);
        const auto c = suite.generate(29, i);
        const auto what = oracle::to_token(c);
        Traffic sent, expected;
        const auto local = run_hosted(local_world(c.mesh.size()), c, false, expected);
        ASSERT_GT(local.values.size(), 0u) << what;
        EXPECT_EQ(first_disagreement(local, engine.run(c, false, sent)), "") << what;
        EXPECT_EQ(expected.sent, sent.sent) << what;
        const auto a = judge_safely(suite, c, here), b = judge_safely(suite, c, engine);
        EXPECT_TRUE(std::holds_alternative<Passed>(a)) << what << explanation_of(a);
        EXPECT_EQ(verdict_of(a), verdict_of(b)) << what << explanation_of(b);
      }
  }
}

// A redistribution with at least three exchanges, on two ranks.
oracle::Case some_moves() {
  oracle::Case c;
  c.suite = "program";
  c.program.inputs = {{at::kFloat, {4, 4}, {}, {oracle::ValueKind::kNormal, 7, 0, 0, {}}, false}};
  const oracle::Target whole{{Replicate{}}, {}}, rows{{Shard{0}}, {}};
  c.program.calls = {{"lockstep::redistribute", {oracle::Ref{0}, whole}, 1},
                     {"aten::neg", {oracle::Ref{1}}, 1},
                     {"lockstep::redistribute", {oracle::Ref{2}, rows}, 1},
                     {"lockstep::redistribute", {oracle::Ref{3}, whole}, 1},
                     {"lockstep::redistribute", {oracle::Ref{4}, rows}, 1},
                     {"lockstep::redistribute", {oracle::Ref{5}, whole}, 1},
                     {"aten::neg", {oracle::Ref{6}}, 1}};
  c.mesh = DeviceMesh({2});
  c.placements = {rows};
  return c;
}

struct Wrong {
  const char* mode;
  Kind kind;
  std::vector<std::string> says;
};

// Catches: survivors that wait for ever, a process that is not named, one that is left when it is over.
TEST_F(RanksEngineTest, WhoIsLostIsNamed) {
  const std::vector<Wrong> wrongs = {
      {"dies",
       Kind::kDied,
       {"process 1 of 2 (log ", "signal 9", "rank 0 (process ", "waits for rank 1 (process ",
        "ranks part in exchange 3 of ranks 0,1, all_gather: rank 1 did not come\n  rank 0: all_gather, "
        "waited, "
        "asked by op 3 lockstep::redistribute",
        "rank 1: did not come; its last is "}},
      {"stalls",
       Kind::kHung,
       {"process 1 of 2 (log ", "did not answer", "waits for rank 1 (process ", "within 4000 ms",
        "ranks part in exchange 3 of ranks 0,1, all_gather: rank 1 did not come"}},
      {"other-group", Kind::kError, {"waits for rank ", "did not come within 4000 ms"}},
  };
  for (const auto& wrong : wrongs) {
    RanksEngine engine(crew(wrong.mode, 2, 8));
    for (int again = 0; again < 2; ++again) {  // the second time they are started anew
      const auto began = std::chrono::steady_clock::now();
      try {
        engine.run(some_moves(), true);
        ADD_FAILURE() << wrong.mode << " was believed";
      } catch (const EngineFailure& e) {
        EXPECT_EQ(e.kind, wrong.kind) << wrong.mode << ": " << e.what();
        for (const auto& text : wrong.says)
          EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << wrong.mode << ": " << e.what();
        EXPECT_EQ(split_of(kept_flights()).has_value(), true) << wrong.mode;
      }
      EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << wrong.mode;
    }
  }
  EXPECT_GT(remove_logs(), 0);
}

// Catches: bits that go astray between processes, and a judge that does not see it.
TEST_F(RanksEngineTest, WhatOneProcessSpoilsIsADifference) {
  for (const auto* mode : {"swaps", "skips"}) {
    RanksEngine engine(crew(mode, 2, 4));
    bool found = false;
    for (uint64_t i = 0; i < 40 && !found; ++i) {
      const auto c = generators::generate("redistribute", 23, i);
      found = std::holds_alternative<Failed>(judge_against_oracle(c, engine, Allowed::kEqual));
    }
    EXPECT_TRUE(found) << mode;
  }
}

// Catches: trainings that are judged in one thread alone, so that bits that go astray elsewhere pass.
TEST_F(RanksEngineTest, WhatOneProcessSpoilsOfATrainingIsFound) {
  for (const auto* name : {"dbuffer", "fsdp"}) {
    const auto& suite = find_suite(name);
    RanksEngine engine(crew("swaps", 2, 8));
    int64_t found = 0;
    for (int64_t i = 0; i < 20; ++i)
      found += std::holds_alternative<Failed>(judge_safely(suite, suite.generate(31, i), engine)) ? 1 : 0;
    EXPECT_GT(found, 5) << name;
  }
}

// Catches: processes that cannot meet, and a run that begins all the same.
TEST_F(RanksEngineTest, ProcessesThatDoNotMeetAreTold) {
  try {
    RanksEngine engine(crew("elsewhere", 2, 4, 4));
    FAIL();
  } catch (const NoProcesses& e) {
    EXPECT_NE(std::string(e.what()).find("2 processes on this machine cannot move bits"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lockstep::suites
