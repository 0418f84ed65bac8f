// SPDX-License-Identifier: Apache-2.0
// Rows of a plan as text, there and back, and what is said of a text that is none.
#include "engine/plan/plan.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "engine/plan/styles.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// Catches: a field that the text loses, or takes for another; a path whose brackets or colons are read as the
// row's own.
TEST(PlanRow, ReadsAsItIsWritten) {
  for (const auto* text : {
           R"(blk1\.fc1.forward_pre:<in>:0:redist(->R,tp))",
           R"(blk1.fc1.init:weight:shard(S0,tp))",
           R"(layers\.\d+\.mlp\.(?:gate|up)_proj.init:weight:shard([R,S0],dp,tp))",
           R"(layers\.(0|1).forward_pre:<in>:2:redist([P,S-1]->[R,I0x3],dp,tp))",
           R"(layers\.\d+.forward_post:<out>:redist(P->S1,tp))",
           R"(layers\.\d+.forward_post:<out>:redist_early(->S1,tp))",
           R"(.*.backward_pre:<out>:redist(->P,tp))",
           R"(core.backward_post:<in>:1:redist(P->S1,tp))",
           R"(layers\.\d+.init:*:shard(S0,fsdp))",
           R"(layers\.\d+.init:*:shard(G,fsdp))",
           R"(layers\.\d+.init:*:shard([R,G],dp,fsdp))",
           R"(layers\.\d+.run:*:shard(R,fsdp))",
           R"(w.init:weight:shard(G0.1:0/1|2/3,fsdp))",
           R"(layers\.\d+\.core\.aten::bmm#1.forward_pre:<in>:1:redist(->S0,tp))",
           "aten::mm.forward_pre:<in>:0:redist(->[R,S1],dp,tp)",
           R"(layers\.\d+\.core.run:<factory>:shard(S1,tp))",
           R"(layers\.\d+\.norm.backward_post:weight.grad:annot([P,P],dp,tp))",
           "backward_post:*.grad:annot_exact(P,dp)",
           "fc1.backward_post:bias.grad:annot_tree(P,dp)",
           "backward_post:*.grad:annot([P,P],dp,tp;passes,ranks)",
           "backward_post:*.grad:annot_tree(P,dp;ranks:bf16,passes:f32)",
           "backward_post:*.grad:annot_exact(P,dp;passes:f32,ranks:f64)",
           "init:classes:shard(S0,tp)",
           "forward_pre:<in>:0:redist(->S0,dp)",
       }) {
    EXPECT_EQ(to_string(parse_plan_row(text)), text);
  }
  const auto row = parse_plan_row(R"(layers\.(0|1).forward_pre:<in>:2:redist([P,S-1]->[R,S0],dp,tp))");
  EXPECT_EQ(row.module, R"(layers\.(0|1))");
  EXPECT_EQ(row.phase, PlanPhase::kForwardPre);
  EXPECT_EQ(row.index, 2);
  EXPECT_EQ(row.from, (Placements{Partial{}, Shard{-1}}));
  EXPECT_EQ(row.to, (Placements{Replicate{}, Shard{0}}));
  EXPECT_EQ(row.mesh_dims, (std::vector<std::string>{"dp", "tp"}));
}

// All rows that there are of some paths, placements and mesh dimensions. Catches the same.
TEST(PlanRow, ReadsAsItIsWrittenForAllSmallOnes) {
  const std::vector<Placements> ones = {{Replicate{}}, {Shard{-1}}, {Partial{ReduceOp::kMax}}},
                                twos = {{Shard{0}, Partial{}}, {RaggedShard{{0}, {2, 1}}, Replicate{}}};
  int64_t count = 0;
  for (const auto* module : {"", "a", R"(a\.(b|c:d).)"})
    for (const bool two : {false, true})
      for (const auto& to : two ? twos : ones)
        for (const auto& from : two ? twos : ones)
          for (const bool is_said : {false, true})
            for (size_t phase = 0; phase < 6; ++phase) {
              const auto is = static_cast<PlanPhase>(phase);
              const bool is_parameter = phase < 2;
              PlanRow row{module, is,           is_parameter ? "weight" : phase % 2 == 0 ? "<in>" : "<out>",
                          0,      std::nullopt, to,
                          {"tp"}, false};
              if (is == PlanPhase::kBackwardPre || is == PlanPhase::kBackwardPost)
                row.tensor = is == PlanPhase::kBackwardPost ? "<in>" : "<out>";
              if (row.tensor == "<in>") row.index = count % 3;
              if (two) row.mesh_dims = {"dp", "tp"};
              if (is_said && !is_parameter) row.from = from;
              row.starts_early = is == PlanPhase::kForwardPost && is_said;
              EXPECT_EQ(parse_plan_row(to_string(row)), row) << row;
              ++count;
            }
  EXPECT_EQ(count, 3 * 2 * 6 * (9 + 4));
}

TEST(PlanRow, WhatIsNoneSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"fc.init:weight", "no action in parentheses"},
      {"fc.init:weight:shard(S0,tp", "no action in parentheses"},
      {"fc.init:weight:shart(S0,tp)", "no action 'shart' (did you mean 'shard'?)"},
      {"fc.init:weight:move(S0,tp)",
       "no action 'move' (there are: shard, redist, redist_early, annot, annot_tree, annot_exact)"},
      {"fc.forward_pr:<in>:0:redist(->R,tp)", "no phase 'forward_pr' (did you mean 'forward_pre'?)"},
      {"fc.init:weight:redist(->R,tp)", "the action redist of weight in the phase init"},
      {"fc.forward_pre:<in>:0:shard(R,tp)", "the action shard of <in> in the phase forward_pre"},
      {"fc.forward_pre:<out>:redist(->R,tp)", "in the phase forward_pre the tensor is <in>, not <out>"},
      {"fc.init:<in>:0:shard(R,tp)", "a parameter or buffer, by its name, not <in>"},
      {"fc.init:weight:shard(S0)", "no mesh dimension"},
      {"fc.init:weight:shard(S0,)", "more than once, or not at all"},
      {"fc.init:weight:shard([S0,R],tp,tp)", "'tp' more than once"},
      {"fc.init:weight:shard([S0,R],tp)", "has 1 mesh dimensions and 2 placements"},
      {"fc.init:weight:shard(->S0,tp)", "an arrow in '->S0'"},
      {"fc.forward_pre:<in>:0:redist(R,tp)", "no arrow in 'R'"},
      {"fc.forward_pre:<in>:0:redist(->Q,tp)", "'Q' is not a placement"},
      {"fc.forward_pre:<in>:-1:redist(->R,tp)", "number -1 of <in>"},
      {"fc.forward_post:<out>:1:redist(->R,tp)", "a number behind <out>"},
      {"fc.init:weight:0:shard(S0,tp)", "a number behind weight"},
      {"fc.init:7:shard(S0,tp)", "a number behind fc.init"},
      {"fc.init:weight:shard(G,tp)", "G without units is of init:*"},
      {"fc.run:*:shard(G,tp)", "G without units is of init:*"},
      {"fc.forward_post:<out>:redist(->G,tp)", "G without units is of init:*"},
      {"fc.init:weight:shard(S0->R,tp)", "an arrow"},
      {"fc.forward_pre:<in>:0:redist_early(->R,tp)", "in the phase forward_post"},
      {"f(c.init:weight:shard(S0,tp)", "no regular expression"},
      {"shard(S0,tp)", "no phase and tensor"},
      {"backward_post:*.grad:annot(P,dp;passes)", "once, and over ranks once"},
      {"backward_post:*.grad:annot(P,dp;ranks,ranks)", "once, and over ranks once"},
      {"backward_post:*.grad:annot(P,dp;passes,rank)", "'rank' is no sum"},
      {"backward_post:*.grad:annot(P,dp;passes:f33,ranks)", "f33"},
      {"backward_post:*.grad:annot(P,dp;passes:i32,ranks)", "not added up in i32"},
      {"fc.init:weight:shard(S0,tp;passes,ranks)", "a ;, behind which"},
  };
  for (const auto& [text, part] : cases) {
    const auto message = error_of([text = text] { parse_plan_row(text); });
    EXPECT_NE(message.find(part), std::string::npos) << text << "\n" << message;
    EXPECT_NE(message.find(std::string("'") + text), std::string::npos) << message;
  }
}

// Catches: a comment that is a row, an error that names another line.
TEST(ParallelPlan, IsLines) {
  const auto plan = parse_plan(
      "# heads\n"
      "\n"
      "  q.init:weight:shard(S0,tp)\r\n"
      "q.forward_pre:<in>:0:redist(->R,tp)");
  EXPECT_EQ(to_string(plan), "q.init:weight:shard(S0,tp)\nq.forward_pre:<in>:0:redist(->R,tp)\n");
  EXPECT_EQ(parse_plan(to_string(plan)), plan);
  EXPECT_NE(error_of([] { parse_plan("# one\nq.init:weight:shard(S0,tp)\nq\n"); }).find("(line 3)"),
            std::string::npos);
}

// Catches: calls that make other rows than their text.
TEST(ParallelPlan, CallsMakeRows) {
  ParallelPlan plan;
  plan.shard("fc1.weight", {Shard{0}}, {"tp"})
      .shard("layers\\.\\d+.*", {Replicate{}}, {"fsdp"}, PlanPhase::kRun)
      .redistribute("matmul.<in>:1", Placements{Shard{1}}, {Replicate{}}, {"tp"},
                    ParallelPlan::Gradient{Placements{Partial{}}, {Shard{1}}})
      .redistribute("fc2.<out>", std::nullopt, {Partial{}, Shard{0}}, {"dp", "tp"},
                    ParallelPlan::Gradient{std::nullopt, {Replicate{}, Shard{0}}})
      .annotate("*.grad", {Partial{}}, {"dp"}, SumOrder::kTree,
                {{SumHop::Over::kRanks}, {SumHop::Over::kPasses, c10::ScalarType::Float}});
  EXPECT_EQ(to_string(plan),
            "fc1.init:weight:shard(S0,tp)\n"
            "layers\\.\\d+.run:*:shard(R,fsdp)\n"
            "matmul.forward_pre:<in>:1:redist(S1->R,tp)\n"
            "matmul.backward_post:<in>:1:redist(P->S1,tp)\n"
            "fc2.forward_post:<out>:redist(->[P,S0],dp,tp)\n"
            "fc2.backward_pre:<out>:redist(->[R,S0],dp,tp)\n"
            "backward_post:*.grad:annot_tree(P,dp;ranks,passes:f32)\n");
  EXPECT_THROW(plan.shard("fc1.weight", {Shard{0}}, {"tp"}, PlanPhase::kForwardPre), Error);
  EXPECT_THROW(plan.redistribute("fc1.weight", std::nullopt, {Shard{0}}, {"tp"}), Error);
  EXPECT_THROW(plan.redistribute("fc1.<in>:x", std::nullopt, {Shard{0}}, {"tp"}), Error);
  EXPECT_EQ(plan.rows().size(), 7u);  // what throws adds nothing
  plan += plan;
  EXPECT_EQ(plan.rows().size(), 14u);
  const PlanRow short_row{"fc", PlanPhase::kInit, "weight", 0, std::nullopt, {}, {"tp"}, false};
  EXPECT_TRUE(says(error_of([&] { ParallelPlan({short_row}); }), {"1 mesh dimensions and 0 placements"}));
  auto from = short_row;
  from.to = {Shard{0}};
  from.from = from.to;
  EXPECT_TRUE(says(error_of([&] { ParallelPlan({from}); }), {"from where is said"}));
}

TEST(ParallelPlan, StylesAreRows) {
  auto plan = colwise_parallel("a", "tp", Replicate{}, Placement(Shard{1}), true);
  plan += rowwise_parallel("b", "tp", Shard{1});
  plan += vocabulary_parallel("c", "tp");
  plan += sequence_parallel("d", "tp");
  plan += expert_parallel("e", "ep");
  plan += prepare_module_input("f", "tp", {std::nullopt, Shard{0}});
  plan += prepare_module_output("", "tp", Replicate{});
  plan += fully_sharded("layers", "fsdp");
  EXPECT_EQ(to_string(plan),
            "a.init:weight:shard(S0,tp)\n"
            "a.init:bias:shard(S0,tp)\n"
            "a.forward_pre:<in>:0:redist(->R,tp)\n"
            "a.forward_post:<out>:redist(->S1,tp)\n"
            "b.init:weight:shard(S1,tp)\n"
            "b.forward_pre:<in>:0:redist(->S-1,tp)\n"
            "b.forward_post:<out>:redist(->S1,tp)\n"
            "c.init:weight:shard(S0,tp)\n"
            "c.forward_pre:<in>:0:redist(->R,tp)\n"
            "c.forward_post:<out>:redist(->R,tp)\n"
            "d.forward_pre:<in>:0:redist(->S1,tp)\n"
            "e.init:gate_proj:shard(S0,ep)\n"
            "e.init:up_proj:shard(S0,ep)\n"
            "e.init:down_proj:shard(S0,ep)\n"
            "f.forward_pre:<in>:1:redist(->S0,tp)\n"
            "forward_post:<out>:redist(->R,tp)\n"
            "layers.init:*:shard(G,fsdp)\n"
            "layers.run:*:shard(R,fsdp)\n");
}

// Catches: a file that loses a row, and one that is not there taken for an empty plan.
TEST(ParallelPlan, IsSavedAndLoaded) {
  const auto file = ::testing::TempDir() + "lockstep_plan_test.plan";
  const auto plan = rowwise_parallel(R"(layers\.\d+\.o_proj)", "tp", Shard{1});
  save_plan(file, plan);
  EXPECT_EQ(load_plan(file), plan);
  std::remove(file.c_str());
  EXPECT_TRUE(says(error_of([] { load_plan(::testing::TempDir()); }), {"cannot read"}));
  EXPECT_NE(error_of([&] { load_plan(file); }).find("cannot read"), std::string::npos);
  EXPECT_NE(error_of([&] { save_plan("/nowhere/x.plan", plan); }).find("cannot write"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
