// SPDX-License-Identifier: Apache-2.0
#include "suites/plans/parallelizing.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

// Catches: an option or a row that the text form loses or reads otherwise, a kind of case that never comes.
TEST(ParallelizingTest, CasesComeBackFromTheirTokens) {
  std::set<std::string> kinds;
  for (int64_t index = 0; index < 400; ++index) {
    const auto c = case_of(any_parallelizing(3, index));
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    const auto p = parallelizing_of(c);
    EXPECT_EQ(case_of(p), c);
    kinds.insert(concat("as ", p.as));
    if (p.tied != 0) kinds.insert("tied");
    if (p.sides != 0) kinds.insert("sides");
    if (p.passes > 1) kinds.insert("several passes");
    if (p.recompute != 0) kinds.insert("recompute");
    kinds.insert(concat("buckets of ", p.bucket));
    for (const auto& row : p.plan.rows()) {
      kinds.insert(name(row.phase));
      if (row.tensor == "*") kinds.insert(concat("all in ", name(row.phase)));
      if (row.module.find("\\d") != std::string::npos) kinds.insert("of several modules");
      if (row.mesh_dims.size() > 1) kinds.insert("along several dimensions");
      if (row.index > 0) kinds.insert("a second input");
      if (row.starts_early) kinds.insert("begun early");
      if (!row.op.empty()) kinds.insert("of ops");
      if (is_annotation(row)) kinds.insert(concat("sums ", static_cast<int>(row.sums)));
      if (!row.hops.empty()) kinds.insert(concat("first over ", static_cast<int>(row.hops[0].over)));
      for (const auto& hop : row.hops)
        if (hop.dtype) kinds.insert(concat("in ", dtype_name(*hop.dtype)));
      if (row.module.empty()) kinds.insert("of the model");
    }
  }
  EXPECT_EQ(kinds.size(), 33) << testing::PrintToString(kinds);
}

// Catches: a smaller case that is none, one that leads back to where it came from.
TEST(ParallelizingTest, SimplerOnesAreCasesAndEnd) {
  for (int64_t index = 0; index < 40; ++index) {
    auto c = case_of(any_parallelizing(5, index));
    for (int64_t left = 400;; --left) {
      ASSERT_GT(left, 0) << oracle::to_token(c);
      const auto simpler = simpler_parallelizings(c);
      if (simpler.empty()) break;
      for (const auto& one : simpler) EXPECT_NO_THROW(parallelizing_of(one)) << oracle::to_token(one);
      c = simpler.front();
    }
  }
}

// Catches: a row that is read for another, a plan that no model can have.
TEST(ParallelizingTest, RowsSayWhatTheySay) {
  const auto plan = parse_rows(
      "x.0_init_weight_S0_a-m_pre_0_R.S1_a.b-1_post_0_S0_b_e-0.0_bpost_0_R_a-"
      "m_tree_all_P_a_r.pf32-0_op_tanh.0_S0_a-0.0_annot_bias_P_a");
  EXPECT_EQ(to_string(plan),
            "\\d+\\.0.init:weight:shard(S0,a)\nforward_pre:<in>:0:redist(->[R,S1],a,b)\n"
            "1.forward_post:<out>:redist_early(->S0,b)\n0\\.0.backward_post:<in>:0:redist(->R,a)\n"
            "backward_post:*.grad:annot_tree(P,a;ranks,passes:f32)\n0\\.aten::tanh.forward_pre:<in>:0:redist("
            "->S0,a)\n"
            "0\\.0.backward_post:bias.grad:annot(P,a)\n");
  const auto message = [](const std::string& options) {
    try {
      parallelizing_of(oracle::parse_token(oracle::to_token([&] {
        oracle::Case c;
        c.suite = "plans";
        c.mesh = DeviceMesh({2}, {"a"});
        c.options = {{"model", "4-L4.t"}, {"plan", options}};
        return c;
      }())));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("0.0_init_weight_S1_a"), "");
  for (const auto& [rows, part] : {std::pair("0.0_init_bias_S1_a", "there is no such dimension"),
                                   {"0.1_pre_0_R_a", "it speaks of no module"},
                                   {"0_pre_1_R_a", "there is no such input"},
                                   {"0.0_run_scale_R_a", "there is no such parameter"},
                                   {"0_pre_0_R_b", "its mesh dimension is none"},
                                   {"x_pre_0_R_a-0_pre_0_S0_a", "speak of one mesh dimension"},
                                   {"0_before_0_R_a", "is not of the form"},
                                   {"0_pre_x_R_a", "is not of the form"},
                                   {"0_post_0_R_a_x", "is not of the form"},
                                   {"m_annot_all_P_a_pf16.r", "which does not hold every one"}})
    EXPECT_NE(message(rows).find(part), std::string::npos) << rows << ": " << message(rows);
}

}  // namespace
}  // namespace lockstep::suites
