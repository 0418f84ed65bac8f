// SPDX-License-Identifier: Apache-2.0
// What CommDebugMode finds of a model of which it is known what moves, in every World.
#include "engine/debug/comm_debug_mode.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/debug/testing.h"
#include "engine/nn/checkpoint.h"
#include "engine/world/library.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

using ByKind = CommDebugMode::ByKind;

const CommDebugMode::OfModule& of(const std::vector<CommDebugMode::OfModule>& all, const std::string& fqn) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& m) { return m.fqn == fqn; });
  if (found == all.end()) throw Error("no module " + fqn);
  return *found;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Catches: a collective that is counted twice or not at all, or for another module; forward taken for
// backward; a gradient's reduction that is nobody's.
TEST(CommDebugMode, CountsByKindModuleAndPass) {
  const auto mesh = two_ranks();
  Net net;
  place(net, mesh);
  const auto x = rows(mesh);
  const CommDebugMode comm_mode;
  step(net, x);
  EXPECT_EQ(comm_mode.get_comm_counts(),
            (std::map<std::string, int64_t>{{"all_reduce", 1}, {"all_to_all", 2}}));
  EXPECT_EQ(comm_mode.get_total_counts(), 3);
  const auto modules = comm_mode.get_comm_counts_by_module();
  ASSERT_EQ(modules.size(), 4U);
  const ByKind turned{{"all_to_all", {1, 96}}}, reduced{{"all_reduce", {1, 192}}};
  const ByKind both{{"all_reduce", {1, 192}}, {"all_to_all", {1, 96}}};
  for (const char* outer : {"Global", "Net"}) {
    EXPECT_EQ(of(modules, outer).forward, turned) << outer;
    EXPECT_EQ(of(modules, outer).backward, both) << outer;
  }
  EXPECT_TRUE(of(modules, "Net.fc1").forward.empty() && of(modules, "Net.fc1").backward.empty());
  EXPECT_TRUE(of(modules, "Net.fc2").forward.empty());
  EXPECT_EQ(of(modules, "Net.fc2").backward, reduced);
  EXPECT_EQ(of(modules, "Net.fc2").module_type, "Linear");
  EXPECT_EQ(of(modules, "Net.fc2").depth, 2U);
}

// Catches: a World whose exchanges are not seen, or bytes that are not those which the ranks of a process
// receive.
TEST(CommDebugMode, ThreadsFindWhatOneThreadDoes) {
  std::mutex together;
  int64_t bytes = 0;
  run_on_threads(2, std::chrono::minutes(1), [&](const WorldPtr& world) {
    const auto mesh = two_ranks(world);
    Net net;
    place(net, mesh);
    const auto x = rows(mesh);
    const CommDebugMode comm_mode;
    step(net, x);
    const std::scoped_lock lock(together);
    EXPECT_EQ(comm_mode.get_comm_counts(),
              (std::map<std::string, int64_t>{{"all_reduce", 1}, {"all_to_all", 2}}));
    for (const auto& counts : {comm_mode.get_comm_counts_by_module()[0].forward,
                               comm_mode.get_comm_counts_by_module()[0].backward})
      for (const auto& [kind, its] : counts) bytes += its.bytes;
  });
  EXPECT_EQ(bytes, 96 + 96 + 192);
}

// Catches: reductions of a library that go by unseen.
TEST(CommDebugMode, SeesTheLibrarysReductions) {
  const auto mesh = two_ranks(reducing_by_gloo(local_world(2)));
  Net net;
  place(net, mesh);
  const auto x = rows(mesh);
  const CommDebugMode comm_mode;
  step(net, x);
  EXPECT_EQ(comm_mode.get_comm_counts().at("all_reduce"), 1);
  EXPECT_EQ(comm_mode.get_comm_counts_by_module()[0].backward.at("all_reduce").bytes, 192);
}

// Catches: a scope that ends late, or never; two that both count.
TEST(CommDebugMode, RecordsWhileItIsTheInnermost) {
  const auto mesh = two_ranks();
  const auto x = distribute_tensor(ramp({4, 4}), mesh, {Shard{0}});
  CommDebugMode outer;
  redistribute(x, {Replicate{}});
  {
    const CommDebugMode inner;
    redistribute(x, {Replicate{}});
    redistribute(x, {Shard{1}});
    EXPECT_EQ(inner.get_total_counts(), 2);
  }
  EXPECT_EQ(outer.get_total_counts(), 1);
  outer.exit();
  redistribute(x, {Replicate{}});
  EXPECT_EQ(outer.get_total_counts(), 1);
}

// Catches: an order other than the program's; an op outside of its module, a collective outside of the
// redistribution that asked for it; a module's path that begins anew.
TEST(CommDebugMode, KeepsTheOrderAndWhatIsWithinWhat) {
  const auto mesh = two_ranks();
  Net net;
  place(net, mesh);
  const auto x = rows(mesh);
  const CommDebugMode comm_mode;
  const at::NoGradGuard no_grad;
  net(x);
  const auto& all = comm_mode.log().all();
  std::vector<std::string> order;
  for (const auto& a : all)
    if (a.kind != ActivityKind::kOp || a.name == "aten::mm") order.push_back(a.name);
  EXPECT_EQ(order, (std::vector<std::string>{"Net", "Net.fc1", "aten::mm", "lockstep::redistribute",
                                             "all_to_all", "Net.fc2", "aten::mm"}));
  const auto within = [&](const Activity& a) -> const Activity& {
    return all.at(static_cast<size_t>(a.within));
  };
  for (const auto& a : all) {
    EXPECT_GE(a.end, a.begin);
    EXPECT_FALSE(a.backward || a.overlaps);
    if (a.within >= 0) {
      EXPECT_TRUE(within(a).begin <= a.begin && a.end <= within(a).end) << a.name;
    }
    if (a.name == "aten::mm") {
      EXPECT_EQ(within(a).name, a.module);
      EXPECT_EQ(a.placed.size(), 2U);
    }
    if (a.kind != ActivityKind::kCollective) continue;
    EXPECT_EQ(a.what, "lockstep::redistribute");
    EXPECT_EQ(within(a).kind, ActivityKind::kRedistribution);
    EXPECT_EQ(within(within(a)).name, "Net");
  }
}

// Catches: candidates that are not those of the decision, in ops that are decided for the first time and in
// those whose decision was kept; a choice that was not the cheapest.
TEST(CommDebugMode, TheChosenCandidatesAreTheDecision) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  const auto x = distribute_tensor(ramp({8, 4}), mesh, {Shard{0}, Shard{1}});
  const auto y = distribute_tensor(ramp({8, 4}), mesh, {Replicate{}, Shard{0}});
  at::add(x, y);
  const CommDebugMode comm_mode(/*wants_candidates=*/true);
  at::add(x, y);
  at::mm(x, y.t());
  x.exp();
  size_t ops = 0, moved = 0;
  for (const auto& a : comm_mode.log().all()) {
    if (a.kind != ActivityKind::kOp) continue;
    ++ops;
    ASSERT_NE(a.candidates, nullptr) << a.name;
    for (int64_t d = 0; d < 2; ++d) {
      const Candidate* chosen = nullptr;
      for (const auto& c : *a.candidates)
        if (c.mesh_dim == d && c.chosen) {
          EXPECT_EQ(chosen, nullptr);
          chosen = &c;
        }
      ASSERT_NE(chosen, nullptr) << a.name;
      moved += chosen->bytes > 0 ? 1 : 0;
      for (const auto& c : *a.candidates) EXPECT_TRUE(c.mesh_dim != d || chosen->bytes <= c.bytes);
      for (size_t i = 0; i < a.placed.size(); ++i)
        if (a.placed[i] != nullptr) {
          EXPECT_EQ(chosen->inputs[i], a.placed[i]->placements()[static_cast<size_t>(d)]);
        }
    }
  }
  EXPECT_EQ(ops, 4U);
  EXPECT_GT(moved, 0U);
}

// Catches: a collective that is on its way while ops run, and is shown as if they were its parts.
TEST(CommDebugMode, KnowsWhatOverlaps) {
  const auto mesh = two_ranks();
  const auto x = distribute_tensor(ramp({4, 4}), mesh, {Shard{0}});
  const CommDebugMode comm_mode;
  const auto begun = redistribute(x, {Replicate{}}, {}, /*async_op=*/true);
  const auto y = x.exp();
  wait_tensor(begun);
  const auto& all = comm_mode.log().all();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].kind, ActivityKind::kRedistribution);
  EXPECT_TRUE(all[1].kind == ActivityKind::kCollective && all[1].overlaps);
  EXPECT_EQ(all[2].name, "aten::exp");
  EXPECT_EQ(all[2].within, -1);
  EXPECT_GE(all[1].end, all[2].end);
}

// Catches: what runs again on the way back, called something else there.
TEST(CommDebugMode, WhatRunsAgainKeepsItsName) {
  const auto mesh = two_ranks();
  nn::Sequential model;
  const auto block = std::make_shared<nn::Sequential>();
  block->push_back(std::make_shared<nn::Linear>(4, 4, false));
  model.push_back(block);
  distribute_module(model, mesh, {});
  manual_seed(3);
  nn::reset_parameters(model);
  checkpoint(*block);
  const auto x = rows(mesh).requires_grad_();
  const CommDebugMode comm_mode;
  model(x).sum().backward();
  std::vector<std::string> forward, backward;
  for (const auto& a : comm_mode.log().all())
    if (a.kind == ActivityKind::kModule) (a.backward ? backward : forward).push_back(a.name);
  EXPECT_EQ(forward, (std::vector<std::string>{"Sequential", "Sequential.0", "Sequential.0.0"}));
  EXPECT_EQ(backward, (std::vector<std::string>{"Sequential.0.0"}));
}

// Catches: a table without modules, passes, bytes or order; a noise level that tells more than a higher one.
TEST(CommDebugMode, TableAndJsonSayIt) {
  const auto mesh = two_ranks();
  Net net;
  place(net, mesh);
  const auto x = rows(mesh);
  const CommDebugMode comm_mode;
  step(net, x);
  const auto table = comm_mode.generate_comm_debug_tracing_table(3);
  EXPECT_TRUE(
      says(table, {"Global\n  FORWARD PASS\n    *all_to_all: 1 (96 bytes)\n  BACKWARD PASS\n",
                   "\n  Net\n    *module type: Net\n", "\n    Net.fc2\n      *module type: Linear\n",
                   "IN ORDER", "aten::mm f32[8x4]@[R], f32[4x6]@[S1] -> f32[8x6]@[S1]",
                   "lockstep::redistribute f32[8x6]@[S1] -> f32[8x6]@[S0]: all_to_all along tp 96 bytes",
                   "all_to_all, 96 bytes, for lockstep::redistribute", "| backward of Net.fc2"}))
      << table;
  size_t lines = 0;
  for (int level = 0; level <= 3; ++level) {
    const auto text = comm_mode.generate_comm_debug_tracing_table(level);
    const auto its = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    EXPECT_GT(its, lines) << level;
    lines = its;
  }
  EXPECT_EQ(comm_mode.generate_comm_debug_tracing_table(1).find("aten::"), std::string::npos);
  const auto json = nlohmann::json::parse(comm_mode.json_dump());
  EXPECT_EQ(json["fqn"], "Global");
  EXPECT_EQ(json["children"][0]["fqn"], "Net");
  EXPECT_EQ(json["children"][0]["children"][1]["collectives_backward"]["all_reduce"]["bytes"], 192);
  EXPECT_EQ(json["operations"].size(), comm_mode.log().all().size());
  const auto folder = testing::TempDir();
  comm_mode.log_comm_debug_tracing_table_to_file(folder + "comm.txt");
  comm_mode.generate_json_dump(folder + "comm.json", 1);
  EXPECT_EQ(text_of(folder + "comm.txt"), table);
  EXPECT_EQ(text_of(folder + "comm.json"), comm_mode.json_dump(1));
}

// Catches: mistakes that are let pass, or told without a remedy.
TEST(CommDebugMode, NamesMistakes) {
  const CommDebugMode comm_mode;
  EXPECT_TRUE(says(error_of([&] { comm_mode.json_dump(4); }), {"noise level 4", "there are 0, 1, 2 and 3"}));
  EXPECT_TRUE(says(error_of([&] { comm_mode.generate_json_dump("/nosuch/a.json"); }),
                   {"/nosuch/a.json", "No such file", "name a file that can be written"}));
}

}  // namespace
}  // namespace lockstep
