// SPDX-License-Identifier: Apache-2.0
// Measuring in turns, with scripts in place of binaries: they speak the protocol and give what the test
// wants.
#include "ci/program/bench_run.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "suites/bench/body.h"
#include "suites/bench/folder.h"

namespace lockstep::program {
namespace {

namespace fs = std::filesystem;

class BenchRunTest : public testing::Test {
 protected:
  // A program of this shell text.
  std::string script(const std::string& name, const std::string& text) {
    const auto path = (folder_.path / name).string();
    std::ofstream(path) << "#!/bin/bash\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  // One that speaks the protocol: `speed` takes so many nanoseconds and 0 to 2 % more, `work` is counted.
  std::string speaker(const std::string& name, int speed, int work, const std::string& check = "ok") {
    return script(
        name, concat("echo 'lockstep-bench 1'\nwhile read -r request rest; do case $request in\n"
                     "list) echo 'series timed less ns test speed'; echo 'series counted less 1 test work'; "
                     "echo end ;;\n",
                     "check) echo '", check, "' ;;\nsample) case $rest in *work) echo value ", work,
                     " ;; *) echo value $((", speed, " * (10000 + RANDOM % 200))) ;; esac ;;\n",
                     "*) echo none ;;\nesac; done\n"));
  }

  BenchOptions options(const std::string& candidate, const std::string& against) {
    BenchOptions o;
    o.db = (folder_.path / "bench.db").string();
    o.candidate = {candidate};
    o.against = against;
    o.patience = 10;
    o.no_instructions = true;
    return o;
  }

  // What it says against a baseline that cannot be measured; nothing may be written then.
  std::string refusal(const std::string& baseline, double patience = 10) {
    auto asked = options(speaker("candidate", 100, 7), baseline);
    asked.patience = patience;
    std::string said;
    try {
      bench(asked);
    } catch (const Error& e) {
      said = e.what();
    }
    EXPECT_FALSE(fs::exists(asked.db));
    return said;
  }

  suites::Folder folder_;
};

size_t count(const BenchResult& result, const std::string& series, std::string_view arm) {
  return values_of(result.samples, series, arm).size();
}

bool says(const BenchResult& result, const std::string& text) {
  return bench_table(result).find(text) != std::string::npos;
}

// Catches: a slowdown without a second batch, a ratio upside down, a verdict on time that nobody has reached.
TEST_F(BenchRunTest, WhatMayHaveChangedIsMeasuredTwice) {
  const auto slow = bench(options(speaker("slow", 120, 7), speaker("fast", 100, 7)));
  EXPECT_EQ(count(slow, "speed", kConfirmCandidate), 20u);
  EXPECT_EQ(count(slow, "speed", kConfirmBaseline), 20u);
  EXPECT_EQ(count(slow, "work", kConfirmCandidate), 0u);
  EXPECT_TRUE(says(slow, "ratio 1.2") || says(slow, "ratio 1.19")) << bench_table(slow);
  EXPECT_TRUE(says(slow, "not judged") && says(slow, "ci/speed")) << bench_table(slow);
  EXPECT_EQ(codes_of(slow), std::set<int>{5});
}

// Catches: a second batch of what did not change.
TEST_F(BenchRunTest, OneBinaryAgainstItselfIsMeasuredOnce) {
  const auto same = speaker("same", 100, 7);
  EXPECT_EQ(count(bench(options(same, same)), "speed", kConfirmCandidate), 0u);
}

// Catches: counts that are compared with a tolerance, and less work that is a regression.
TEST_F(BenchRunTest, CountsAreComparedExactly) {
  auto asked = options(speaker("more", 100, 1000001), speaker("less", 100, 1000000));
  asked.pattern = "work";
  EXPECT_EQ(codes_of(bench(asked)), std::set<int>{4});
  std::swap(asked.candidate[0], asked.against);
  const auto less = bench(asked);
  EXPECT_TRUE(says(less, "better"));
  EXPECT_EQ(codes_of(less), std::set<int>{});
  asked.against = asked.candidate[0];
  EXPECT_TRUE(says(bench(asked), "same"));
}

// Catches: samples that are lost on the way to the store, or land in another arm.
TEST_F(BenchRunTest, EverySampleIsInTheStore) {
  auto asked = options(speaker("slow", 120, 7), speaker("fast", 100, 7));
  asked.rounds = 6;
  bench(asked);
  std::map<std::string, int> arms;
  const auto store = dashboard::Store::open_reader(asked.db);
  SQLite::Statement row(store.database(), "SELECT series || ' ' || arm FROM v_samples");
  while (row.executeStep()) ++arms[row.getColumn(0).getString()];
  EXPECT_EQ(arms["speed candidate"], 6);
  EXPECT_EQ(arms["speed again"], 6);
  EXPECT_EQ(arms["speed baseline"], 6);
  EXPECT_EQ(arms["work candidate"], 2);
  EXPECT_EQ(arms["work baseline"], 2);
}

// Catches: a body with wrong bits that is timed all the same.
TEST_F(BenchRunTest, WrongBitsEndIt) {
  const auto asked = options(speaker("wrong", 100, 7, "wrong [add] result 0 of 1 has wrong bits"), "");
  EXPECT_THROW(bench(asked), suites::WrongBits);
  EXPECT_FALSE(fs::exists(asked.db));
}

// Catches: an error that does not say which binary, what it did and what is needed; a hang that is waited
// for.
TEST_F(BenchRunTest, ABaselineThatCannotBeMeasuredIsRefused) {
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos &&
           text.find("must be a lockstep that knows") != std::string::npos;
  };
  const auto too_old = refusal(script("old", "echo 'The following argument was not expected' >&2; exit 2\n"));
  EXPECT_TRUE(says(too_old, "old ended with code 2")) << too_old;
  const auto other = refusal(script("other", "echo 'lockstep-bench 7'; sleep 1\n"));
  EXPECT_TRUE(says(other, "greets with 'lockstep-bench 7' instead of 'lockstep-bench 1'")) << other;
  const auto hanging = refusal(script("hanging", "exec sleep 100\n"), 1);
  EXPECT_TRUE(says(hanging, "hanging gave no answer within 1 s")) << hanging;
  const auto dying = refusal(script("dying", "echo 'lockstep-bench 1'; read -r line; kill -9 $$\n"));
  EXPECT_TRUE(says(dying, "dying was ended by signal 9")) << dying;
  const auto babbling =
      refusal(script("babbling", "echo 'lockstep-bench 1'; while read -r line; do echo what; done\n"));
  EXPECT_TRUE(says(babbling, "lists 'what', which is no series")) << babbling;
}

// Catches: a number that is read where there is none.
TEST_F(BenchRunTest, ASampleThatIsNoNumberIsRefused) {
  const auto text = refusal(speaker("odd", 100, 7, "ok\nvalue"));
  EXPECT_NE(text.find("odd"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::program
