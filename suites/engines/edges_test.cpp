// SPDX-License-Identifier: Apache-2.0
// Statements at the edge of DTensors on Lockstep's own engine, in the worlds that it has, one by one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "generators/cases/programs.h"
#include "generators/program/trial.h"
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "suites/core/judge.h"
#include "suites/engines/make_engine.h"

namespace lockstep::suites {
namespace {

using oracle::Case;
using oracle::Ref;

oracle::Target at(std::string_view placements) {
  return {parse_placements(placements), {}};
}

oracle::Input input(std::vector<int64_t> shape, uint64_t seed, bool grad = false) {
  return {at::kFloat, std::move(shape), {}, {oracle::ValueKind::kIntegers, seed, -3, 3, {}}, grad};
}

Case on_mesh(std::vector<oracle::Input> inputs, std::vector<oracle::Target> placements,
             std::vector<oracle::Call> calls) {
  Case c;
  c.suite = "edges";
  c.mesh = DeviceMesh({2, 3});
  c.integer_lane = true;
  c.program.inputs = std::move(inputs);
  c.placements = std::move(placements);
  c.program.calls = std::move(calls);
  oracle::validate(c);
  return c;
}

std::string op(std::string_view name) {
  return std::string(name);
}
using Refs = std::vector<Ref>;

std::vector<Case> cases() {
  return {
      // The gradient of a full tensor, from plain computation.
      on_mesh({input({7, 4}, 1, true), input({7, 4}, 2), input({7, 4}, 3)}, {at("[S0,P]"), {}, {}},
              {{op(oracle::kFullTensor), {Ref{0}}, 1},
               {"aten::mul.Tensor", {Ref{3}, Ref{1}}, 1},
               {op(oracle::kBackward), {Refs{{4}}, Refs{{2}}}, 1}}),
      // Numbers of the host beside DTensors.
      on_mesh({input({}, 1), input({5}, 2)}, {at("[P,R]"), at("[S0,R]")},
              {{op(oracle::kItem), {Ref{0}}, 1},
               {"aten::mul.Tensor", {Ref{1}, Ref{2}}, 1},
               {op(oracle::kEquality), {Ref{1}, Ref{3}}, 1}}),
      // A plain scalar that counts for its dtype.
      on_mesh({input({5}, 1), input({}, 2)}, {at("[S0,R]"), {}},
              {{"aten::add.Tensor", {Ref{0}, Ref{1}, int64_t{1}}, 1}}),
      // Slices of one operand, the whole of the other, whose gradients are terms.
      on_mesh({input({7, 4}, 1, true), input({1, 4}, 2, true), input({7, 4}, 3)},
              {at("[R,R]"), at("[S1,R]"), at("[S0,S1]")},
              {{op(oracle::kLocalMap),
                {op("aten::mul.Tensor"), Ref{0}, Ref{1}, at("[S0,R]"), at("[S0,R]"), at("[R,R]"), at("[P,R]"),
                 at("[S0,R]"), std::vector<int64_t>{7, 4}},
                1},
               {op(oracle::kBackward), {Refs{{3}}, Refs{{2}}}, 2}}),
      // A sum of which each rank has a term, and none of the empty ones.
      on_mesh({input({4, 2}, 1, true), input({}, 2)}, {at("[P,S0]"), at("[R,R]")},
              {{op(oracle::kLocalMap),
                {op("aten::sum"), Ref{0}, oracle::None{}, at("[S0,S0]"), at("[S0,S0]"), at("[P,P]"),
                 std::vector<int64_t>{}},
                1},
               {op(oracle::kBackward), {Refs{{2}}, Refs{{1}}}, 1}}),
      // Without history: the second factor has no gradient.
      on_mesh({input({5}, 1, true), input({5}, 2)}, {at("[S0,R]"), at("[R,S0]")},
              {{op(oracle::kSetGradEnabled), {false}, 0},
               {"aten::neg", {Ref{0}}, 1},
               {op(oracle::kSetGradEnabled), {true}, 0},
               {"aten::mul.Tensor", {Ref{0}, Ref{2}}, 1},
               {op(oracle::kBackward), {Refs{{3}}, Refs{{1}}}, 1}}),
      // A hook, and gradients that add up.
      on_mesh({input({5}, 1, true), input({5}, 2)}, {at("[S0,P]"), at("[R,S0]")},
              {{"aten::neg", {Ref{0}}, 1},
               {op(oracle::kScaleGradient), {Ref{2}, 2.0}, 0},
               {op(oracle::kAccumulate), {Refs{{2}}, Refs{{1}}}, 1},
               {op(oracle::kAccumulate), {Refs{{2}}, Refs{{1}}}, 1}}),
      // A block that runs again on the way back and draws what it drew; what is drawn behind it goes on.
      on_mesh({input({5, 2}, 1, true), input({5, 2}, 2)}, {at("[S0,R]"), at("[R,S1]")},
              {{op(oracle::kCheckpoint), {true}, 0},
               {op(oracle::kRedistribute), {Ref{0}, at("[R,S1]")}, 1},
               {"aten::native_dropout", {Ref{2}, 0.5, true}, 2},
               {op(oracle::kCheckpointEnd), {}, 0},
               {op(oracle::kBackward), {Refs{{3}}, Refs{{1}}}, 1},
               {"aten::native_dropout", {Ref{1}, 0.5, true}, 2}}),
      // The same, drawing anew.
      on_mesh({input({5, 2}, 1, true), input({5, 2}, 2)}, {at("[S0,R]"), at("[R,S1]")},
              {{op(oracle::kCheckpoint), {false}, 0},
               {"aten::native_dropout", {Ref{0}, 0.5, true}, 2},
               {op(oracle::kCheckpointEnd), {}, 0},
               {op(oracle::kAccumulate), {Refs{{2}}, Refs{{1}}}, 1},
               {"aten::native_dropout", {Ref{1}, 0.5, true}, 2}}),
      // The gradient of a gradient.
      on_mesh({input({5}, 1, true), input({5}, 2)}, {at("[S0,R]"), at("[R,S0]")},
              {{"aten::mul.Tensor", {Ref{0}, Ref{0}}, 1},
               {op(oracle::kBackward), {Refs{{2}}, Refs{{1}}, true}, 1},
               {op(oracle::kBackward), {Refs{{3}}, Refs{{1}}}, 1}}),
  };
}

Case on_mesh_of(std::vector<int64_t> shape, Case c) {
  c.mesh = DeviceMesh(std::move(shape));
  oracle::validate(c);
  return c;
}

// A mesh_map of a product, and its gradients: x and w are placed so, the second one's gradient so.
Case product_on(const char* meshes, std::vector<int64_t> mesh, std::vector<int64_t> x, std::vector<int64_t> w,
                std::vector<const char*> placed) {
  const std::vector<int64_t> y = {x[0], w[1]};
  const auto everywhere = Placements(mesh.size(), Replicate{});
  Case c;
  c.suite = "edges";
  c.integer_lane = true;
  c.program.inputs = {input(x, 1, true), input(w, 2, true), input(y, 3)};
  c.placements.assign(3, {everywhere, {}});
  oracle::Call call{op(oracle::kMeshMap), {op(meshes), op("aten::mm"), Ref{0}, Ref{1}}, 1};
  for (const char* one : placed) call.args.emplace_back(at(one));
  call.args.emplace_back(y);
  c.program.calls = {call, {op(oracle::kBackward), {Refs{{3}}, Refs{{2}}}, 2}};
  return on_mesh_of(std::move(mesh), std::move(c));
}

std::vector<Case> mesh_maps() {
  return {
      // Tensor parallel within each row of the mesh, rows of the batch apart: the gradient of w has a term of
      // each row.
      product_on("1", {2, 3}, {5, 4}, {4, 7}, {"[S0,R]", "[S0,R]", "[R,S1]", "[P,S1]", "[S0,S1]"}),
      // Cut along what is summed over, within the mesh and across: terms of each mesh pend.
      product_on("1", {2, 2}, {3, 8}, {8, 2}, {"[S1,S1]", "[S1,S1]", "[S0,S0]", "[S0,S0]", "[P,S0]"}),
      // The first dimension kept, whose ranks are no neighbours; some of them have nothing.
      product_on("0", {3, 2}, {2, 3}, {3, 4}, {"[S0,R]", "[S0,P]", "[R,S1]", "[R,S1]", "[S0,S1]"}),
      // Two of three dimensions, not adjacent.
      product_on("0.2", {2, 2, 2}, {5, 3}, {3, 5},
                 {"[S1,S0,R]", "[S1,S0,R]", "[S0,R,S1]", "[S0,P,S1]", "[S1,S0,R]"}),
      // All ranks in a row: the last has less, or nothing.
      product_on("flat", {2, 2}, {7, 3}, {3, 4}, {"[S0,S0]", "[S0,S0]", "[S1,S1]", "[S1,S1]", "[S0,S0]"}),
      product_on("flat", {2, 4}, {1, 8}, {8, 2}, {"[S1,S1]", "[S1,S1]", "[R,R]", "[R,R]", "[S0,S0]"}),
  };
}

// Catches: a mesh made of another with the ranks of a neighbour, and what its ops move or leave pending.
TEST(Edges, AnOpOnMeshesMadeOfTheMeshIsEqualInEveryWorld) {
  for (const auto* world : {"local", "thread"}) {
    const auto engine = make_engine("lockstep", {.world = world});
    for (Case c : mesh_maps()) {
      for (const bool reversed : {false, true}) {
        auto ranks = c.mesh.ranks();
        if (reversed) std::reverse(ranks.begin(), ranks.end());
        c.mesh = DeviceMesh(c.mesh.shape(), {}, ranks);
        const auto outcome = judge_against_oracle(c, *engine, Allowed::kEqual);
        EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << world << "\n"
                                                             << oracle::to_token(c) << "\n"
                                                             << explanation_of(outcome);
      }
    }
  }
}

// What user code does with lists, terms and memory, and a mean that it asks for as it pends.
std::vector<Case> local_cases() {
  return {
      // A list of slices, joined where no rank has a part.
      on_mesh({input({7, 4}, 1, true), input({7, 4}, 2, true), input({7, 8}, 3)},
              {at("[R,S1]"), at("[P,R]"), at("[S0,S1]")},
              {{op(oracle::kLocalMap),
                {op("aten::cat"), Refs{{0}, {1}}, int64_t{1}, at("[S0,R]"), at("[S0,R]"), at("[S0,R]"),
                 at("[S0,R]"), at("[S0,R]"), std::vector<int64_t>{7, 8}},
                1},
               {op(oracle::kBackward), {Refs{{3}}, Refs{{2}}}, 2}}),
      // The terms of a sum, each of which is doubled; the gradient of each is that of the sum.
      on_mesh({input({7, 4}, 1, true), input({7, 4}, 2)}, {at("[P,S1]"), at("[S0,R]")},
              {{op(oracle::kLocalMap),
                {op("aten::mul.Scalar"), Ref{0}, int64_t{2}, at("[P,S0]"), at("[R,S0]"), at("[P,S0]"),
                 std::vector<int64_t>{7, 4}},
                1},
               {op(oracle::kBackward), {Refs{{2}}, Refs{{1}}}, 1}}),
      // What is written to local tensors shows in the DTensor that they are of, and not in what it was made
      // of.
      on_mesh({input({7, 4}, 1, true)}, {at("[S1,P]")},
              {{op(oracle::kLocalMap),
                {op("aten::mul_.Scalar"), Ref{0}, int64_t{2}, at("[S0,R]"), at("[S0,R]"), at("[S0,R]"),
                 std::vector<int64_t>{7, 4}},
                1},
               {"aten::add.Tensor", {Ref{0}, Ref{1}, int64_t{1}}, 1}}),
      // A mean that pends where nothing moves by itself.
      on_mesh({input({12, 4}, 1, true), input({4}, 2)}, {at("[S0,R]"), at("[R,S0]")},
              {{op(oracle::kSetExplicitRedistribution), {true}, 0},
               {"aten::mean.dim", {Ref{0}, std::vector<int64_t>{1}, false, oracle::None{}}, 1},
               {op(oracle::kRedistribute), {Ref{2}, at("[R,R]")}, 1},
               {op(oracle::kSetExplicitRedistribution), {false}, 0},
               {"aten::sum", {Ref{3}, oracle::None{}}, 1}}),
  };
}

// Catches: a statement that does not run, in one process or with a rank a thread, or is not what one device
// computes.
TEST(Edges, EveryStatementIsEqualInEveryWorld) {
  for (const auto* world : {"local", "thread"}) {
    const auto engine = make_engine("lockstep", {.world = world});
    auto all = cases();
    for (auto& c : local_cases()) all.push_back(std::move(c));
    for (const auto& c : all) {
      const auto outcome = judge_against_oracle(c, *engine, Allowed::kEqual);
      EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << world << "\n"
                                                           << oracle::to_token(c) << "\n"
                                                           << explanation_of(outcome);
    }
  }
}

// Catches: a mean that is reduced at once though the Program asked for it as it pends, one that another order
// than its own excuses.
TEST(Edges, AMeanPendsWhereTheProgramSaysAllMoves) {
  auto c = on_mesh({input({12, 5}, 1)}, {at("[S0,S0]")},
                   {{op(oracle::kSetExplicitRedistribution), {true}, 0},
                    {"aten::mean.dim", {Ref{0}, std::vector<int64_t>{0}, false, oracle::None{}}, 1},
                    {op(oracle::kSetExplicitRedistribution), {false}, 0}});
  c.integer_lane = false;
  const auto engine = make_engine("lockstep");
  EXPECT_EQ(engine->run(c, false).values.at(1).spec->placements(), at("[Pavg,Pavg]").placements);
  const auto outcome = judge_against_oracle(c, *engine, Allowed::kExplained);
  EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << explanation_of(outcome);
}

// Whether something has several gradients from within a block, which are added up first, and others from
// outside of it.
bool sums_in_another_order(const oracle::Program& program) {
  std::map<int64_t, int64_t> within, outside;
  bool encloses = false;
  for (const auto& call : program.calls) {
    if (call.op == oracle::kCheckpoint || call.op == oracle::kCheckpointEnd)
      encloses = call.op == oracle::kCheckpoint;
    for (const Ref ref : generators::references(call)) ++(encloses ? within : outside)[ref.id];
  }
  return std::any_of(within.begin(), within.end(),
                     [&](const auto& uses) { return uses.second > 1 && outside.contains(uses.first); });
}

// Catches: a block that draws, counts or differentiates otherwise when it runs again; cases that enclose
// none.
TEST(Edges, ACheckpointChangesNothingWhereDrawsAreRestored) {
  const auto source = make_engine("lockstep")->plain_source();
  size_t enclosing = 0, drawing = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Case c = generators::generate("edges", 5, i);
    auto& calls = c.program.calls;
    const auto begins = [](const oracle::Call& call) { return call.op == oracle::kCheckpoint; };
    const auto found = std::find_if(calls.begin(), calls.end(), begins);
    if (found == calls.end() || found->args[0] != oracle::Arg(true)) continue;
    Case plain = c;
    std::erase_if(plain.program.calls, [&](const oracle::Call& call) {
      return begins(call) || call.op == oracle::kCheckpointEnd;
    });
    if (!c.integer_lane && sums_in_another_order(c.program)) continue;
    // A hook within the block hears what comes from outside it alone.
    if (std::any_of(calls.begin(), calls.end(), [](auto& call) { return call.op == oracle::kScaleGradient; }))
      continue;
    const auto with = oracle::evaluate(c, *source), without = oracle::evaluate(plain, *source);
    ASSERT_EQ(with.size(), without.size());
    for (size_t v = 0; v < with.size(); ++v)
      EXPECT_TRUE(!without[v].defined() ||
                  (with[v].defined() && oracle::compare(with[v].detach(), without[v].detach()).equal()))
          << v << " of " << oracle::to_token(c);
    ++enclosing;
    drawing += std::any_of(calls.begin(), calls.end(), [](const oracle::Call& call) {
      return !oracle::is_own(call.op) && oracle::find_operator(call.op).random;
    });
  }
  EXPECT_GT(enclosing, 150);
  EXPECT_GT(drawing, 10);
}

// Catches: an engine that is asked for statements that it does not have.
TEST(Edges, AnEngineThatDoesNotSayThatItHasThemIsNotAsked) {
  EngineProfile profile;
  EXPECT_EQ(lacks(profile, cases()[0]), "program v2");
  profile.program = 2;
  EXPECT_EQ(lacks(profile, cases()[0]), "");
  Case some = cases()[0];
  some.mesh = DeviceMesh({2, 3}, {}, {7, 1, 2, 3, 4, 5});
  EXPECT_EQ(lacks(profile, some), "a world of 8 ranks for a mesh of 6");
  EXPECT_EQ(lacks(own_profile(), some), "");
}

}  // namespace
}  // namespace lockstep::suites
