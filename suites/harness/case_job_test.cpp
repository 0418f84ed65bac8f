// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/case_job.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::suites {
namespace {

// Catches: a worker that judges other cases than the run asked for, or records them as another run's.
TEST(CaseJob, ArrivesAsItWasSent) {
  CaseJob job;
  job.options.suites = {"ops", "random"};
  job.options.seed = std::numeric_limits<uint64_t>::max();
  job.options.shard = 1, job.options.shards = 3;
  job.options.lane = Lane::kFast;
  job.options.db = "a \xff\n\"path\".db";
  job.options.required = {{"uneven", 7}};
  job.options.fault = "term-lost", job.options.engine = "./peer --flag", job.options.world = "gloo";
  job.options.ranks = 3;
  job.options.hang_seconds = 0.1;
  job.run = {"id", "lockstep run \xfe", 5, "fast", "{}", "hash", "commit", "cpu", "compiler", "libtorch"};
  job.run.replay = " --ranks 3";
  job.run.engine = "other", job.run.version = "2", job.run.cores = 4, job.run.started_ms = 1'700'000'000'000;
  job.chosen = {"random", "ops"};
  job.kept = {{"v1:ops;…", "ops", "bucket", "slow", 3, "note", 9}};
  job.recorded = {{"ops", {0, 5, int64_t{1} << 40}}};
  const auto bytes = bytes_of(job);
  const auto back = read_job(bytes);
  EXPECT_EQ(bytes_of(back), bytes);
  EXPECT_EQ(back.options.seed, job.options.seed);
  EXPECT_EQ(back.options.lane, Lane::kFast);
  EXPECT_EQ(back.options.db, job.options.db);
  EXPECT_EQ(back.options.ranks, 3);
  EXPECT_EQ(back.options.hang_seconds, 0.1);
  EXPECT_EQ(back.run.command, job.run.command);
  EXPECT_EQ(back.run.replay, job.run.replay);
  EXPECT_EQ(back.run.started_ms, job.run.started_ms);
  EXPECT_EQ(back.chosen, job.chosen);
  EXPECT_EQ(back.kept, job.kept);
  EXPECT_EQ(back.recorded, job.recorded);
}

}  // namespace
}  // namespace lockstep::suites
