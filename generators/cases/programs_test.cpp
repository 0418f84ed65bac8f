// SPDX-License-Identifier: Apache-2.0
// Cases of every suite: valid, written and read back, the same for the same seed, and of the mixture that
// finds bugs.
#include "generators/cases/programs.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/values/error.h"
#include "generators/cases/arguments.h"
#include "generators/cases/blocks.h"
#include "generators/cases/labels.h"
#include "generators/cases/metamorphic.h"
#include "generators/program/trial.h"
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/statements.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::generators {
namespace {

const std::vector<std::string> kSuites = {"layout", "redistribute", "ops",         "gradient",
                                          "random", "program",      "metamorphic", "cache",
                                          "faults", "canary",       "overlap"};
constexpr uint64_t kCases = 400;

// Would catch: a placement, argument or reference that the oracle refuses; text that does not say the whole
// case.
TEST(Programs, every_case_is_valid_and_round_trips) {
  for (const auto& suite : kSuites)
    for (uint64_t i = 0; i < kCases; ++i) {
      const auto c = generate(suite, 11, i);
      ASSERT_NO_THROW(oracle::validate(c)) << suite << " " << i << "\n" << oracle::describe(c);
      ASSERT_EQ(oracle::parse_token(oracle::to_token(c)), c) << suite << " " << i << "\n"
                                                             << oracle::describe(c);
    }
}

// Would catch: state kept between cases, a draw whose order the compiler may choose, a seed or suite left
// out.
TEST(Programs, a_case_is_a_function_of_seed_suite_and_index) {
  for (const auto& suite : kSuites) {
    const auto later = generate(suite, 3, 17);
    for (uint64_t i = 0; i < 40; ++i) generate(suite, 4, i);
    EXPECT_EQ(generate(suite, 3, 17), later);
    EXPECT_NE(generate(suite, 5, 17), later);
  }
  EXPECT_NE(generate("program", 3, 17).program, generate("faults", 3, 17).program);
  EXPECT_THROW(generate("no such suite", 0, 0), Error);
}

// Would catch: a Program that the plain evaluation refuses, which the trial on zeros did not see.
TEST(Programs, every_case_runs_on_one_device) {
  oracle::SimulatedSource source;
  for (const auto& suite : kSuites)
    for (uint64_t i = 0; i < kCases / 2; ++i) {
      auto c = generate(suite, 12, i);
      c.device = {1, 256};  // small launches: the simulation runs every thread
      ASSERT_NO_THROW(oracle::evaluate(c, source)) << suite << " " << i << "\n" << oracle::describe(c);
    }
}

// Would catch: a swarm that starves a feature. Shares are of the suite `program`, in percent.
TEST(Programs, features_have_their_share) {
  std::map<std::string, int64_t> counts;
  constexpr int64_t kTotal = 3000;
  int64_t calls = 0;
  for (uint64_t i = 0; i < kTotal; ++i) {
    const auto c = generate("program", 13, i);
    for (const auto& label : labels(c)) ++counts[label];
    calls += static_cast<int64_t>(c.program.calls.size());
    EXPECT_LE(c.mesh.size(), 8);
    EXPECT_FALSE(c.program.calls.empty());
  }
  const std::map<std::string, int64_t> least = {
      {"backward", 35},       {"uneven", 60},        {"empty-shard", 25},
      {"size-0", 8},          {"size-1", 25},        {"mesh-2d", 35},
      {"mesh-3d", 5},         {"unequal-mesh", 30},  {"partial-sum", 23},
      {"partial-avg", 8},     {"partial-max", 8},    {"partial-min", 8},
      {"nested-shard", 8},    {"other-order", 4},    {"interleaved", 8},
      {"in-place", 15},       {"view", 15},          {"list", 8},
      {"random", 10},         {"redistribute", 30},  {"reuse", 30},
      {"strided", 15},        {"special-values", 5}, {"integer-lane", 25},
      {"optimizer", 2},       {"f64", 22},           {"f32", 60},
      {"bf16", 14},           {"f16", 14},           {"i64", 20},
      {"bool", 15},           {"mixed-dtypes", 35},  {"several-leaves", 15},
      {"partial-product", 8}, {"one-rank", 1},       {"ragged", 15}};
  for (const auto& [label, percent] : least)
    EXPECT_GE(counts[label] * 100, percent * kTotal) << label << ": " << counts[label] << " of " << kTotal;
  EXPECT_GE(calls, 3 * kTotal);
  auto known = all_labels();
  for (auto& label : statement_labels()) known.push_back(std::move(label));
  for (const auto& [label, count] : counts)
    EXPECT_TRUE(std::count(known.begin(), known.end(), label)) << label << " is in no list of labels";
}

// Would catch: words that are never forged, or in the way of most Cases, or in one that draws nothing.
TEST(Programs, some_streams_are_forged) {
  constexpr int64_t kTotal = 500;
  std::map<std::string, int64_t> counts;
  for (uint64_t i = 0; i < kTotal; ++i)
    for (const auto& label : labels(generate("random", 17, i))) ++counts[label];
  int64_t forged = 0;
  for (const char* label : {"words-zeros", "words-ones", "words-equal", "words-edges"}) {
    EXPECT_GE(counts[label], 5) << label;
    forged += counts[label];
  }
  EXPECT_LE(forged, kTotal / 4);
  forged = 0;
  for (uint64_t i = 0; i < kTotal; ++i) {
    const auto c = generate("program", 17, i);
    const auto list = labels(c);
    if (c.words == RandomWords::kPhilox) continue;
    ++forged;
    const bool may_draw = std::any_of(c.program.calls.begin(), c.program.calls.end(), [](const auto& call) {
      return call.op == "aten::scaled_dot_product_attention";
    });
    EXPECT_TRUE(may_draw || std::count(list.begin(), list.end(), "random")) << oracle::describe(c);
  }
  EXPECT_GE(forged, 1);
}

// Would catch: an op that no program ever has, though its template stands in the table.
TEST(Programs, suites_reach_every_op) {
  std::map<std::string, int64_t> seen;
  for (const char* suite : {"ops", "gradient"})
    for (uint64_t i = 0; i < 5 * op_templates().size(); ++i)  // other overloads come in turns
      for (const auto& call : generate(suite, 14, i).program.calls) ++seen[call.op];
  for (uint64_t i = 0; i < 1500; ++i)
    for (const auto& call : generate("program", 14, i).program.calls) ++seen[call.op];
  for (const auto& op : op_templates()) EXPECT_GT(seen[op.op], 0) << op.op;
  EXPECT_GT(seen["aten::_fused_adamw_"], 0);
}

// Would catch: a form of `cache` that no case has, for want of a backward pass.
TEST(Programs, cache_cases_do_as_autograd_does) {
  std::map<std::string, int> last;
  for (uint64_t i = 0; i < 400; ++i) {
    const auto calls = generate("cache", 15, i).program.calls;
    const auto is_backward = [](const oracle::Call& call) { return oracle::runs_backward(call.op); };
    if (std::any_of(calls.begin(), calls.end(), is_backward)) ++last[calls.back().op];
  }
  for (const char* op : {"aten::slice.Tensor", "aten::scatter_add_", "lockstep::backward"})
    EXPECT_GE(last[op], 5) << op;
}

// Would catch: cases of `cache` that never repeat an op, so that a cache key is never asked twice.
TEST(Programs, cache_cases_repeat_an_op) {
  int64_t repeats = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    std::map<std::string, int64_t> ops;
    const auto program = generate("cache", 15, i).program;
    for (const auto& call : program.calls) ++ops[call.op];
    // The view that matmul is composed of, or what a gradient is made with, and then the Program's own.
    const bool views_again = ops["aten::matmul"] > 0 && program.calls.back().op == "aten::view";
    const bool is_autograds = ops["lockstep::backward"] > 0;
    const bool repeated =
        std::any_of(ops.begin(), ops.end(), [](const auto& entry) { return entry.second > 1; });
    repeats += repeated || views_again || is_autograds ? 1 : 0;
  }
  EXPECT_GE(repeats, 290);
}

// Would catch: a suite whose cases never enter the integer lane, or never take an argument that no maker
// thought of, where every other suite's do.
TEST(Programs, cache_cases_have_the_share_of_the_others) {
  constexpr int64_t kTotal = 3000;
  int64_t exact = 0, written_again = 0, varied = 0;
  for (uint64_t i = 0; i < kTotal; ++i) {
    const auto c = generate("cache", 15, i);
    std::map<std::string, int64_t> ops;
    for (const auto& call : c.program.calls) ++ops[call.op];
    const auto in_place = [](const auto& op) { return oracle::is_in_place(op.first) && op.second > 1; };
    exact += c.integer_lane ? 1 : 0;
    written_again += c.integer_lane && std::any_of(ops.begin(), ops.end(), in_place) ? 1 : 0;
    const auto names = arguments(c);
    const auto no_maker_sets = [](const std::string& name) {
      return name.find("Scalar(alpha)") != name.npos;
    };
    varied += std::any_of(names.begin(), names.end(), no_maker_sets) ? 1 : 0;
  }
  EXPECT_GE(exact * 100, 25 * kTotal);
  EXPECT_GE(written_again * 100, kTotal);
  EXPECT_GE(varied, 7);
}

std::vector<at::Tensor> answer(oracle::Case c) {
  oracle::SimulatedSource source;
  c.device = {1, 256};
  return oracle::evaluate(c, source);
}

// Would catch: a block that reads what was written after its history had saved it, whose gradient of zeros
// libtorch refuses where it takes the Program without the block.
TEST(Blocks, read_nothing_whose_history_is_stale) {
  const auto c = oracle::parse_token(
      "v1:program;mesh=1;seed=0;dev=1x256;x0=f32[2]:normal(1)@[R]!;x1=f32[2]:ones@[R];v0=aten::exp(x0);"
      "v1=aten::relu_(v0);v2=aten::neg(v0);v3=aten::neg(x0);v4=lockstep::backward(t[v3],t[x1])#d4e7c3aa");
  oracle::SimulatedSource source;
  int64_t enclosed = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    auto made = with_checkpoint(c, Random(i));
    enclosed += made.program.calls.size() > c.program.calls.size();
    ASSERT_NO_THROW(oracle::evaluate(made, source)) << oracle::describe(made);
  }
  EXPECT_GE(enclosed, 20);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return oracle::compare(a, b).equal();
}

std::vector<std::vector<int64_t>> shapes_of(const std::vector<at::Tensor>& values) {
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& t : values) shapes.push_back(t.defined() ? t.sizes().vec() : std::vector<int64_t>());
  return shapes;
}

// Would catch: a fold that leaves other rows than the blocks of a RaggedShard divide, where a redistribution
// goes.
TEST(Metamorphic, a_fold_that_no_block_divides_is_left_out) {
  const auto text =
      "v1:metamorphic;mesh=4x2;seed=0;dev=1x256;x0=f32[1x6]:ones@[R,R];"
      "v0=lockstep::redistribute(x0,@[S1,G0.1:1/1])#14fa2acd";
  auto c = oracle::parse_token(text);
  EXPECT_EQ(refactor_mesh(c, {{1, 6}, {1, 6}}), std::nullopt);
  c.program.inputs[0].shape = {1, 8};
  EXPECT_NE(refactor_mesh(c, {{1, 8}, {1, 8}}), std::nullopt);
}

// Would catch: a transformation that changes the inputs' values, forgets a redistribution's target, or breaks
// a Spec.
TEST(Metamorphic, the_single_device_answer_stays) {
  int64_t refactored = 0, beside_ragged = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const auto c = generate("metamorphic", 16, i);
    std::vector<oracle::Case> variants = {permute_ranks(c, Random(i)), ranks_of_larger_world(c, Random(i)),
                                          world_of_one(c), replicate_inputs(c)};
    const auto expected = answer(c);
    if (auto other = refactor_mesh(c, shapes_of(expected))) {
      ++refactored;
      const auto ragged = [](const oracle::Target& target) { return has_ragged(target); };
      beside_ragged += std::any_of(c.placements.begin(), c.placements.end(), ragged) ? 1 : 0;
      EXPECT_EQ(other->mesh.ndim(), c.mesh.ndim() + 1);
      EXPECT_EQ(other->mesh.size(), c.mesh.size());
      variants.push_back(std::move(*other));
    }
    for (const auto& variant : variants) {
      ASSERT_NO_THROW(oracle::validate(variant)) << oracle::describe(c);
      EXPECT_EQ(oracle::parse_token(oracle::to_token(variant)), variant);
      const auto actual = answer(variant);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t v = 0; v < actual.size(); ++v)
        EXPECT_TRUE(same_bits(actual[v], expected[v])) << "value " << v << "\n"
                                                       << oracle::describe(c) << oracle::describe(variant);
    }
  }
  EXPECT_GT(refactored, 30);
  EXPECT_GT(beside_ragged, 0);
}

// Weights of a normalised image learn, the image does not, and its channels lie last. Catches: a gradient
// that libtorch writes to where there is none, which takes the process along.
TEST(Programs, NoImageWithoutAGradientIsNormalisedWhereLibtorchWritesToIt) {
  EXPECT_FALSE(generate("edges", 246592975, 4988).program.calls.empty());
}

}  // namespace
}  // namespace lockstep::generators
