// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `plans`: small models under a ParallelPlan, as a Case, which is an empty Program.
// Its mesh trains, its seed and device are the stream's, and its options say what is trained and by what
// plan.
#pragma once
#include "engine/plan/plan.h"
#include "suites/fsdp/sharding.h"

namespace lockstep::suites {

// How a plan is applied.
inline constexpr int64_t kAsItStands = 0, kInBuffers = 1, kOptimized = 2, kHoisted = 3, kStatically = 4;

struct Parallelizing {
  // The model, as that of a Sharding.
  int64_t width = 4;
  std::vector<BlockSpec> blocks = {{{'L', 4}}};
  int64_t sides = 0, tied = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;

  ParallelPlan plan;
  int64_t as = kAsItStands;
  int64_t examples = 4, steps = 1;
  int64_t passes = 1;              // of a step; gradients that pend are added up by the end of the last one
  int64_t recompute = 0;           // 1: every block runs again on the way back
  int64_t bucket = 1000;           // bytes of gradients in one exchange
  Placements cut = {Replicate{}};  // of the examples

  DeviceMesh mesh = DeviceMesh({1}, {"a"});
  uint64_t seed = 0;
  DeviceModel device;
  Lane numerics = Lane::kExact;

  Sharding model() const;
  at::Tensor x() const;
  at::Tensor weight(size_t which, at::IntArrayRef shape) const;
};

// A module of the model that is called: its path, own parameters, and how many inputs it has.
struct PlannedModule {
  std::string path;
  std::vector<std::pair<std::string, int64_t>> parameters;  // names and how many dimensions they have
  int64_t inputs = 1;
};
std::vector<PlannedModule> modules_of(const Parallelizing& p);
// Whether the row's regular expression says this path.
bool speaks_of(const PlanRow& row, const std::string& path);

// Rows without the characters that tokens need: "x.0_init_weight_S0_a-m_pre_0_R.S1_a.b-0_post_0_S1_a_e-
// m_tree_all_P_a_pf32.r-0.1_op_mm.0_S0_a". m is the model, x any number, e begins early; annot, tree and
// exact are of gradients of parameters, added up over passes in f32, then over ranks; op of an op's input.
std::string rows_text(const ParallelPlan& plan);
ParallelPlan parse_rows(const std::string& text);

// What is wrong with it; empty: nothing.
std::string unfit(const Parallelizing& p);
// Throws Error for a Case that is none.
Parallelizing parallelizing_of(const oracle::Case& c);
// @post parallelizing_of(result) is `p`
oracle::Case case_of(const Parallelizing& p);

// A pure function of both.
Parallelizing any_parallelizing(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_parallelizings(const oracle::Case& c);

}  // namespace lockstep::suites
