// SPDX-License-Identifier: Apache-2.0
// The file that export_chrome_trace writes, read as Perfetto reads it.
#include "engine/debug/chrome_trace.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/debug/testing.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::vector<Json> complete_events(const std::string& file) {
  std::ifstream in(file);
  std::vector<Json> events;
  const auto all = Json::parse(in);
  for (const auto& event : all.at("traceEvents"))
    if (event.at("ph") == "X") events.push_back(event);
  return events;
}

double begin(const Json& event) {
  return event.at("ts").get<double>();
}
double end(const Json& event) {
  return begin(event) + event.at("dur").get<double>();
}

// Catches: events that cut each other, of which a viewer shows something else.
void expect_nested(const std::vector<Json>& events) {
  constexpr double kRounding = 1e-3;  // microseconds
  for (const auto& a : events)
    for (const auto& b : events) {
      if (a["pid"] != b["pid"] || a["tid"] != b["tid"] || begin(b) < begin(a) + kRounding) continue;
      EXPECT_TRUE(begin(b) >= end(a) - kRounding || end(b) <= end(a) + kRounding) << a << b;
    }
}

std::vector<Json> named(const std::vector<Json>& events, const std::string& name) {
  std::vector<Json> found;
  for (const auto& event : events)
    if (event["name"] == name) found.push_back(event);
  return found;
}

void record(ActivityLogPtr log, const MeshInWorld& mesh) {
  Net net;
  place(net, mesh);
  const auto x = rows(mesh);
  const Recording recording(std::move(log));
  step(net, x);
}

// Catches: an activity that is no event, or does not lie in its module; a way back without modules.
TEST(ChromeTrace, EventsLieInTheirModules) {
  const auto log = std::make_shared<ActivityLog>();
  record(log, two_ranks());
  const auto file = testing::TempDir() + "nested.json";
  export_chrome_trace(file, *log);
  const auto events = complete_events(file);
  EXPECT_GE(events.size(), log->all().size());
  expect_nested(events);
  const auto net = named(events, "Net"), fc1 = named(events, "Net.fc1"), turned = named(events, "all_to_all");
  ASSERT_GE(net.size(), 2U);  // forward, and on the way back
  EXPECT_EQ(net[0]["args"]["phase"], "forward");
  EXPECT_EQ(net.back()["args"]["phase"], "backward");
  ASSERT_EQ(turned.size(), 2U);
  EXPECT_TRUE(begin(net[0]) <= begin(fc1[0]) && end(fc1[0]) <= end(net[0]));
  EXPECT_TRUE(begin(fc1[0]) <= begin(turned[0]) && end(turned[0]) <= end(net[0]));
  EXPECT_EQ(turned[0]["args"]["bytes"], 96);
}

// Catches: an op that does not say between which rows it chose, what it paid, and what was moved for it.
TEST(ChromeTrace, AnOpSaysWhyAndWhatItMoved) {
  const auto mesh = two_ranks();
  const auto x = distribute_tensor(ramp({8, 4}), mesh, {Shard{0}});
  const auto y = distribute_tensor(ramp({8, 4}), mesh, {Shard{1}});
  const auto log = std::make_shared<ActivityLog>(/*wants_candidates=*/true);
  {
    const Recording recording(log);
    at::add(x, y);
  }
  const auto file = testing::TempDir() + "why.json";
  export_chrome_trace(file, *log);
  const auto events = complete_events(file);
  ASSERT_EQ(events.size(), 3U);
  const auto args = named(events, "aten::add.Tensor").at(0)["args"];
  EXPECT_EQ(args["bytes_moved"], 64);
  EXPECT_TRUE(says(args["why"], {"along tp: ", "the cheapest of "})) << args;
  size_t chosen = 0;
  for (const auto& candidate : args["candidates"]) {
    EXPECT_EQ(candidate["along"], "tp");
    chosen += candidate["chosen"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(chosen, 1U);
  EXPECT_GE(args["candidates"].size(), 3U);  // rows, columns, whole
  const auto move = named(events, "lockstep::redistribute").at(0)["args"];
  EXPECT_EQ(move["implicit"], true);
  EXPECT_EQ(move["moved"], Json::parse(R"([{"collective":"all_to_all","along":"tp","bytes":64}])"));
}

// Catches: a collective that cuts the ops during which it went on.
TEST(ChromeTrace, WhatOverlapsHasATrackOfItsOwn) {
  const auto mesh = two_ranks();
  const auto x = distribute_tensor(ramp({4, 4}), mesh, {Shard{0}});
  const auto log = std::make_shared<ActivityLog>();
  {
    const Recording recording(log);
    const auto one = redistribute(x, {Replicate{}}, {}, true), other = redistribute(x, {Shard{1}}, {}, true);
    const auto y = x.exp();
    wait_tensor(one);
    wait_tensor(other);
  }
  const auto file = testing::TempDir() + "overlap.json";
  export_chrome_trace(file, *log);
  const auto events = complete_events(file);
  expect_nested(events);
  EXPECT_EQ(named(events, "all_gather").at(0)["tid"], 1);
  EXPECT_EQ(named(events, "all_to_all").at(0)["tid"], 2);
  EXPECT_EQ(named(events, "aten::exp").at(0)["tid"], 0);
}

// Catches: a file of one rank's events only, or several that are written over each other.
TEST(ChromeTrace, ThoseThatHostRanksWriteOneFile) {
  const auto file = testing::TempDir() + "threads.json";
  run_on_threads(2, std::chrono::minutes(1), [&](const WorldPtr& world) {
    const auto log = std::make_shared<ActivityLog>();
    record(log, two_ranks(world));
    export_chrome_trace(file, *log, world);
  });
  const auto events = complete_events(file);
  std::set<int64_t> pids;
  for (const auto& event : events) pids.insert(event["pid"].get<int64_t>());
  EXPECT_EQ(pids, (std::set<int64_t>{0, 1}));
  EXPECT_EQ(named(events, "all_to_all").size(), 4U);
  expect_nested(events);
}

// Catches: a file that cannot be written, and nobody is told.
TEST(ChromeTrace, NamesAFileThatCannotBeWritten) {
  EXPECT_TRUE(says(error_of([] { export_chrome_trace("/nosuch/t.json", ActivityLog()); }),
                   {"/nosuch/t.json", "No such file", "name a file that can be written"}));
}

}  // namespace
}  // namespace lockstep
