// SPDX-License-Identifier: Apache-2.0
// The interpreter against the same ops called by name, and the recording against what was called.
#include "oracle/plain/evaluate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "oracle/plain/crossings.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Refs = std::vector<Ref>;
using Ints = std::vector<int64_t>;

Input normal(Ints shape, uint64_t seed, bool requires_grad = false, ScalarType dtype = ScalarType::Float) {
  return {dtype, std::move(shape), {}, {ValueKind::kNormal, seed, 0, 0, {}}, requires_grad};
}

Case make_case(std::vector<Input> inputs, std::vector<Call> calls) {
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  c.program.seed = 5;
  c.program.inputs = std::move(inputs);
  c.program.calls = std::move(calls);
  c.placements.assign(c.program.inputs.size(), Target{{Replicate{}}, {}});
  return c;
}

std::vector<at::Tensor> values(const Case& c) {
  validate(c);
  SimulatedSource random;
  return evaluate(c, random);
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a, b) && a.scalar_type() == b.scalar_type();
}

// Would catch: an argument of any type that reaches the op changed, results in another order.
TEST(Run, PassesEveryTypeOfArgument) {
  const Case c =
      make_case({normal({4, 6}, 1),
                 normal({4, 6}, 2),
                 {ScalarType::Long, {3}, {}, {ValueKind::kIndex, 3, 0, 3, {}}, false}},
                {{"aten::add.Tensor", {Ref{0}, Ref{1}, 2.5}, 1},
                 {"aten::sum.dim_IntList", {Ref{3}, Ints{1}, true, ScalarType::Double}, 1},
                 {"aten::split.Tensor", {Ref{0}, int64_t{3}, int64_t{1}}, 2},
                 {"aten::cat", {Refs{{5}, {6}, {0}}, int64_t{1}}, 1},
                 {"aten::index.Tensor", {Ref{0}, Refs{{-1}, {2}}}, 1},
                 {"aten::gelu", {Ref{0}, std::string("tanh")}, 1},
                 {"aten::clamp", {Ref{0}, None{}, int64_t{1}}, 1},
                 {"aten::_foreach_mul.ScalarList", {Refs{{0}, {1}}, std::vector<double>{2.0, -0.5}}, 2},
                 {"aten::var.correction", {Ref{0}, None{}, int64_t{1}, false}, 1}});
  const auto v = values(c);
  ASSERT_EQ(static_cast<int64_t>(v.size()), c.program.value_count());
  EXPECT_TRUE(same(v[3], at::add(v[0], v[1], 2.5)));
  EXPECT_TRUE(same(v[4], at::sum(v[3], {1}, true, at::kDouble)));
  EXPECT_TRUE(same(v[6], v[0].narrow(1, 3, 3)));
  EXPECT_TRUE(same(v[7], at::cat({v[5], v[6], v[0]}, 1)));
  EXPECT_TRUE(same(v[8], at::index_select(v[0], 1, v[2])));
  EXPECT_TRUE(same(v[9], at::gelu(v[0], "tanh")));
  EXPECT_TRUE(same(v[10], at::clamp_max(v[0], 1)));
  EXPECT_TRUE(same(v[12], at::mul(v[1], -0.5)));
  EXPECT_TRUE(same(v[13], at::var(v[0], at::OptionalIntArrayRef(), at::Scalar(1))));
}

// Would catch: an in-place result that is a copy, a lost write through a view, a void op that yields results.
TEST(Run, AliasesAsTheOpsDo) {
  const Case c = make_case({normal({4, 6}, 1), normal({4, 6}, 2)},
                           {{"aten::select.int", {Ref{0}, int64_t{0}, int64_t{1}}, 1},
                            {"aten::mul_.Scalar", {Ref{2}, 2.0}, 1},
                            {"aten::_foreach_add_.Scalar", {Refs{{1}}, 1.0}, 0},
                            {"lockstep::detach", {Ref{0}}, 1},
                            {"lockstep::redistribute", {Ref{0}, Target{{Shard{0}}, {}}}, 1}});
  const auto before = values(make_case(c.program.inputs, {}));
  const auto v = values(c);
  EXPECT_TRUE(v[3].is_same(v[2]));
  EXPECT_TRUE(same(v[0][1], at::mul(before[0][1], 2.0)));
  EXPECT_TRUE(same(v[0][0], before[0][0]));
  EXPECT_TRUE(same(v[1], at::add(before[1], 1.0)));
  EXPECT_EQ(v[4].data_ptr(), v[0].data_ptr());
  EXPECT_NE(v[5].data_ptr(), v[0].data_ptr());
  EXPECT_TRUE(same(v[5], v[0]));
}

// Would catch: a gradient for the wrong input, an unused one that is not undefined, a graph freed between two
// passes.
TEST(Run, TakesGradients) {
  const Case c =
      make_case({normal({4, 6}, 1, true), normal({6, 3}, 2, true), normal({5}, 3, true), normal({4, 3}, 4)},
                {{"aten::mm", {Ref{0}, Ref{1}}, 1},
                 {"lockstep::backward", {Refs{{4}}, Refs{{3}}}, 3},
                 {"lockstep::backward", {Refs{{4}}, Refs{{3}}}, 3}});
  const auto v = values(c);
  EXPECT_TRUE(same(v[5], at::mm(v[3], v[1].t())));
  EXPECT_TRUE(same(v[6], at::mm(v[0].t(), v[3])));
  EXPECT_FALSE(v[7].defined());
  EXPECT_TRUE(same(v[8], v[5]));
}

// A sum of which every rank adds up its part is the sum. Would catch: gradients of its gradients that are of
// one rank's part.
TEST(Run, WhatPendsHasGradientsOfGradients) {
  const Case by_parts = parse_token(
      "v2:edges;mesh=2;seed=1;dev=2x512;x0=f32[4]:integers(5,-4,4)@[S0]!;x1=f32[-]:ones@[R];"
      "x2=f32[4]:integers(7,-4,4)@[S0];"
      "v0=lockstep::local_map(\"aten::sum\",x0,none,@[S0],@[S0],@[P],[]);"
      "v1=aten::mul.Tensor(v0,v0);v2=lockstep::backward(t[v1],t[x1],true);"
      "v3=lockstep::backward(t[v2],t[x2])#2627764e");
  const Case at_once = parse_token(
      "v2:edges;mesh=2;seed=1;dev=2x512;x0=f32[4]:integers(5,-4,4)@[S0]!;x1=f32[-]:ones@[R];"
      "x2=f32[4]:integers(7,-4,4)@[S0];v0=aten::sum(x0,none);v1=aten::mul.Tensor(v0,v0);"
      "v2=lockstep::backward(t[v1],t[x1],true);v3=lockstep::backward(t[v2],t[x2])#d5c28889");
  EXPECT_TRUE(same(values(by_parts).back(), values(at_once).back()));
}

// A product of which each mesh of two ranks has a term is the product. Would catch: parts that kept
// dimensions cut, a gradient that counts the ranks of a mesh.
TEST(Run, AnOpOnMeshesMadeOfTheMeshIsTheOp) {
  const auto integers = [](Ints shape, uint64_t seed) {
    return Input{ScalarType::Float, std::move(shape), {}, {ValueKind::kIntegers, seed, -4, 4, {}}, true};
  };
  const auto by = [&](Call product) {
    Case c = make_case({integers({3, 5}, 1), integers({5, 2}, 2), integers({3, 2}, 3)},
                       {std::move(product), {"lockstep::backward", {Refs{{3}}, Refs{{2}}}, 3}});
    c.mesh = DeviceMesh({2, 2});
    c.placements.assign(3, {parse_placements("[R,R]"), {}});
    c.integer_lane = true;
    return values(c);
  };
  const auto at_once = by({"aten::mm", {Ref{0}, Ref{1}}, 1});
  const std::vector<std::vector<const char*>> all = {
      {"1", "[S1,S0]", "[S1,S0]", "[S0,R]", "[S0,R]", "[P,S0]"},
      {"0", "[S1,R]", "[S1,P]", "[S0,S1]", "[S0,S1]", "[R,S1]"}};
  for (const auto& words : all) {
    Call call{"lockstep::mesh_map", {std::string(words[0]), std::string("aten::mm"), Ref{0}, Ref{1}}, 1};
    for (size_t i = 1; i < words.size(); ++i) call.args.emplace_back(Target{parse_placements(words[i]), {}});
    call.args.emplace_back(Ints{3, 2});
    const auto parts = by(call);
    for (size_t v = 3; v < 6; ++v) EXPECT_TRUE(same(parts.at(v), at_once.at(v))) << v << " " << words[0];
  }
}

// Would catch: a call whose number of results differs from the Program's, silently shifting all later values.
TEST(Run, RefusesAnotherNumberOfResults) {
  const Case c = make_case({normal({4}, 1)}, {{"aten::split.Tensor", {Ref{0}, int64_t{2}, int64_t{0}}, 3}});
  SimulatedSource random;
  EXPECT_THROW(evaluate(c, random), Error);
  EXPECT_THROW(run(c.program, {}, on_one_device(c.mesh)), Error);
}

// Would catch: a checkpoint through which no gradient goes that ends the pass, or has one.
TEST(Run, ABlockWithoutAHistoryHasNoGradient) {
  const Case c = make_case({normal({4}, 1, true), normal({4}, 2)},
                           {{"lockstep::checkpoint", {true}, 0},
                            {"aten::ones_like", {Ref{0}, None{}, None{}, None{}, None{}, None{}}, 1},
                            {"lockstep::checkpoint_end", {}, 0},
                            {"aten::mul.Tensor", {Ref{0}, Ref{2}}, 1},
                            {"lockstep::backward", {Refs{{3}}, Refs{{1}}}, 1}});
  const auto v = values(c);
  EXPECT_TRUE(v[2].requires_grad());
  EXPECT_TRUE(same(v[4], v[1]));
}

// Would catch: a call that is not tried although it has to be refused, and a refusal that ends the Program.
TEST(Run, ACallThatHasToBeRefusedIs) {
  Case c = make_case({normal({4}, 1)}, {{"aten::neg", {Ref{0}}, 1}});
  c.program.refused = Call{"lockstep::redistribute", {Ref{1}, Target{{Shard{0}}, {}}}, 1};
  Placing placing = on_one_device(c.mesh);
  EXPECT_THROW(run(c.program, {at::ones({4})}, placing), Error);
  placing.redistribute = [](const at::Tensor&, const Target&) -> at::Tensor {
    throw Refused(Refusal::kView, "lockstep::redistribute", "", "cannot; ", "do");
  };
  EXPECT_EQ(run(c.program, {at::ones({4})}, placing).size(), 2u);
}

// Would catch: a reference that is float32 in disguise, or random values drawn anew in double.
TEST(EvaluateF64, IsTheSameProgramInDouble) {
  const Case c =
      make_case({normal({4, 6}, 1, true), normal({6, 3}, 2)},
                {{"aten::native_dropout", {Ref{0}, 0.5, true}, 2},
                 {"aten::mm", {Ref{2}, Ref{1}}, 1},
                 {"aten::rand_like", {Ref{4}, None{}, None{}, None{}, None{}, None{}}, 1},
                 {"aten::_to_copy", {Ref{4}, ScalarType::BFloat16, None{}, None{}, None{}, false, None{}}, 1},
                 {"lockstep::backward", {Refs{{4}}, Refs{{5}}}, 1}});
  SimulatedSource random;
  const auto plain = evaluate(c, random);
  const auto wide = evaluate_f64(c, random, plain);
  for (const size_t i : {0, 1, 2, 4, 5, 6, 7}) EXPECT_EQ(wide[i].scalar_type(), at::kDouble) << i;
  EXPECT_TRUE(same(wide[3], plain[3]));
  EXPECT_TRUE(same(wide[5], plain[5].to(at::kDouble)));
  EXPECT_TRUE(same(wide[4], at::mm(wide[2], wide[1])));
  EXPECT_TRUE(at::allclose(wide[7], plain[7].to(at::kDouble), 1e-5, 1e-6));
  EXPECT_GT(at::sum(plain[3]).item<int64_t>(), 0);
  EXPECT_LT(at::sum(plain[3]).item<int64_t>(), 24);
}

// Would catch: a mask drawn for a tensor that lies otherwise, whose elements take other words.
TEST(EvaluateF64, DropsWhatThePlainRunDrops) {
  const Case c = make_case({normal({13, 2, 5}, 1)},
                           {{"aten::transpose.int", {Ref{0}, int64_t{0}, int64_t{1}}, 1},
                            {"aten::slice.Tensor", {Ref{1}, int64_t{1}, int64_t{9}, None{}, int64_t{3}}, 1},
                            {"aten::native_dropout", {Ref{2}, 0.5, true}, 2}});
  SimulatedSource random;
  const auto plain = evaluate(c, random);
  const auto wide = evaluate_f64(c, random, plain);
  ASSERT_FALSE(plain[2].is_non_overlapping_and_dense());
  EXPECT_TRUE(same(wide[4], plain[4]));
}

// Would catch: a conversion that in double is its operand itself, and what is written to one of them in both;
// one that is the operand in the plain run too, and no longer is.
TEST(EvaluateF64, ConversionsAreTensorsOfTheirOwn) {
  auto x = normal({4}, 1);
  x.dtype = ScalarType::Double;
  const Case c = make_case({x}, {{"aten::to.dtype", {Ref{0}, ScalarType::BFloat16, false, false, None{}}, 1},
                                 {"aten::to.dtype", {Ref{0}, ScalarType::Double, false, false, None{}}, 1},
                                 {"aten::zero_", {Ref{1}}, 1}});
  SimulatedSource random;
  const auto plain = evaluate(c, random);
  const auto wide = evaluate_f64(c, random, plain);
  EXPECT_TRUE(same(wide[0], plain[0]));
  EXPECT_FALSE(wide[1].is_same(wide[0]));
  EXPECT_TRUE(wide[2].is_same(wide[0]));
}

// Would catch: numbers that are drawn in place, and in double are not there.
TEST(EvaluateF64, DrawsInPlaceWhatThePlainRunDraws) {
  const Case c = make_case({normal({4, 6}, 1)}, {{"aten::select.int", {Ref{0}, int64_t{1}, int64_t{2}}, 1},
                                                 {"aten::uniform_", {Ref{1}, 0.0, 1.0, None{}}, 1}});
  SimulatedSource random;
  const auto plain = evaluate(c, random);
  const auto wide = evaluate_f64(c, random, plain);
  EXPECT_TRUE(same(wide[0], plain[0].to(at::kDouble)));
  EXPECT_TRUE(wide[2].is_same(wide[1]));
}

// Would catch: a copy in the place of what a conversion returns that converts nothing, or the other way
// round.
TEST(EvaluateF64, AConversionReturnsItsOperandWhereThePlainRunsDoes) {
  for (const auto dtype : {ScalarType::Float, ScalarType::Double}) {
    const Case c = make_case({normal({3}, 1), normal({3}, 2)},
                             {{"aten::to.dtype", {Ref{1}, dtype, false, false, None{}}, 1}});
    SimulatedSource random;
    const auto plain = evaluate(c, random);
    ASSERT_EQ(plain[2].is_same(plain[1]), dtype == ScalarType::Float);
    const auto wide = evaluate_f64(c, random, plain);
    EXPECT_EQ(wide[2].is_same(wide[1]), dtype == ScalarType::Float);
  }
}

std::vector<std::string> recorded(const Case& c) {
  SimulatedSource random;
  std::vector<std::string> names;
  for (const RecordedOp& op : evaluate_recorded(c, random).recording.ops) names.push_back(op.op->name);
  return names;
}

// Would catch: ops inside kernels counted as ops of the program, composites counted besides their parts, an
// op of the backward pass that is missed.
TEST(Recording, HoldsTheOpsThatReachAKernel) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(recorded(make_case({normal({4, 6}, 1, true), normal({3, 6}, 2, true), normal({4, 3}, 3)},
                               {{"aten::linear", {Ref{0}, Ref{1}, None{}}, 1},
                                {"lockstep::backward", {Refs{{3}}, Refs{{2}}}, 2}})),
            (Names{"aten::t", "aten::mm", "aten::t", "aten::mm", "aten::t", "aten::t", "aten::mm", "aten::t",
                   "aten::clone", "aten::clone"}));
  // ones_like fills inside its kernel; an in-place op saves what its derivative needs.
  EXPECT_EQ(recorded(make_case({normal({4}, 1, true), normal({4}, 2)},
                               {{"aten::ones_like", {Ref{0}, None{}, None{}, None{}, None{}, None{}}, 1},
                                {"aten::mul.Tensor", {Ref{0}, Ref{2}}, 1},
                                {"aten::pow_.Scalar", {Ref{3}, 2.0}, 1},
                                {"lockstep::backward", {Refs{{4}}, Refs{{1}}}, 1}})),
            (Names{"aten::ones_like", "aten::mul.Tensor", "aten::clone", "aten::pow_.Scalar",
                   "aten::pow.Tensor_Scalar", "aten::mul.Scalar", "aten::mul.Tensor", "aten::mul.Tensor",
                   "aten::clone"}));
  EXPECT_EQ(recorded(make_case({normal({4, 4}, 1, true), normal({4, 4}, 2)},
                               {{"aten::dropout", {Ref{0}, 0.5, true}, 1},
                                {"lockstep::backward", {Refs{{2}}, Refs{{1}}}, 1}})),
            (Names{"aten::native_dropout", "aten::native_dropout_backward", "aten::clone"}));
}

// Would catch: a recording that shows later values for earlier reads.
TEST(Recording, KeepsValuesAsTheyWere) {
  const Case c = make_case({normal({4, 6}, 1)}, {{"aten::select.int", {Ref{0}, int64_t{0}, int64_t{1}}, 1},
                                                 {"aten::mul_.Scalar", {Ref{1}, 2.0}, 1},
                                                 {"aten::neg", {Ref{0}}, 1},
                                                 {"aten::add_.Scalar", {Ref{0}, 1.0, int64_t{1}}, 1}});
  const at::Tensor before = values(make_case(c.program.inputs, {}))[0];
  SimulatedSource random;
  const PlainRun plain = evaluate_recorded(c, random);
  const auto& ops = plain.recording.ops;
  ASSERT_EQ(ops.size(), 4u);
  EXPECT_TRUE(same(plain.recording.read(ops[0].inputs[0]), before));
  EXPECT_TRUE(same(plain.recording.read(ops[1].inputs[0]), before[1]));
  EXPECT_TRUE(same(plain.recording.read(ops[1].results[0]), at::mul(before[1], 2.0)));
  const at::Tensor middle = plain.recording.read(ops[2].inputs[0]);
  EXPECT_TRUE(same(middle[1], at::mul(before[1], 2.0)));
  EXPECT_TRUE(same(middle[0], before[0]));
  EXPECT_TRUE(same(plain.recording.read(ops[3].results[0]), plain.values[0]));
  EXPECT_EQ(plain.recording.window(plain.values[0]).epoch, 2);
}

// What is recorded is what happens unrecorded. Catches: the zeros of sgn's gradient, which libtorch knows,
// added to a gradient that only the recording holds besides, so that it is not added to in place, and keeps
// -0; or -0 lost where a graph is made, or where the other is of a formula.
TEST(Recording, ChangesNoGradient) {
  const auto integers = [](uint64_t seed, int64_t low, int64_t high, bool requires_grad) {
    return Input{ScalarType::Float, {4}, {}, {ValueKind::kIntegers, seed, low, high, {}}, requires_grad};
  };
  const std::vector<Input> inputs = {integers(2, -1, 1, true), integers(1, 1, 1, false),
                                     integers(0, -2, 2, false)};
  const Ref x{0}, one{1}, seed{2}, v{3}, w{4}, y{5};
  const std::vector<std::vector<Call>> programs = {
      {{"aten::sgn", {x}, 1},
       {"aten::neg", {x}, 1},
       {"lockstep::backward", {Refs{v, w}, Refs{one, seed}}, 1}},
      {{"aten::sgn", {x}, 1},
       {"aten::neg", {x}, 1},
       {"lockstep::backward", {Refs{v, w}, Refs{one, seed}, true}, 1}},
      {{"aten::neg", {x}, 1},
       {"aten::sgn", {x}, 1},
       {"lockstep::backward", {Refs{v, w}, Refs{seed, one}}, 1}},
      {{"aten::neg", {x}, 1},
       {"aten::sgn", {x}, 1},
       {"aten::mul.Tensor", {v, w}, 1},
       {"lockstep::backward", {Refs{y}, Refs{seed}}, 1}},
      {{"aten::neg", {x}, 1},
       {"aten::sgn", {v}, 1},
       {"aten::abs", {v}, 1},
       {"lockstep::backward", {Refs{w, y}, Refs{one, seed}}, 1}}};
  int64_t negative = 0;
  for (size_t k = 0; k < programs.size(); ++k) {
    const Case c = make_case(inputs, programs[k]);
    SimulatedSource random, again;
    const at::Tensor plain = evaluate(c, random).back().detach();
    const at::Tensor recorded = evaluate_recorded(c, again).values.back().detach();
    EXPECT_TRUE(same(plain.view(at::kInt), recorded.view(at::kInt))) << k << '\n'
                                                                     << plain << '\n'
                                                                     << recorded;
    negative += at::eq(plain, 0).logical_and(plain.signbit()).sum().item<int64_t>();
  }
  EXPECT_GT(negative, 0);
}

// What libtorch swallows of a callback's took the process along. Catches: a recording that goes on after a
// tensor that it cannot name, or says nothing of it.
TEST(Recording, RefusesWhatIsNotDense) {
  const Ref x{0}, index{1}, seed{2};
  const std::vector<Case> cases = {
      make_case({normal({3, 3}, 1)}, {{"aten::to_sparse", {x, None{}, None{}, None{}}, 1}}),
      make_case({normal({3, 3}, 1)}, {{"aten::to_mkldnn", {x, None{}}, 1}}),
      make_case({normal({3, 3}, 1, true),
                 {ScalarType::Long, {1, 3}, {}, {ValueKind::kIndex, 2, 0, 2, {}}, false},
                 normal({1, 3}, 3),
                 normal({3, 3}, 4)},
                {{"aten::gather", {x, int64_t{0}, index, true}, 1},
                 {"aten::neg", {x}, 1},
                 {"lockstep::backward", {Refs{Ref{4}, Ref{5}}, Refs{seed, Ref{3}}}, 1}})};
  for (const Case& c : cases) {
    SimulatedSource random;
    try {
      evaluate_recorded(c, random);
      ADD_FAILURE() << describe(c);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("keep it dense"), std::string::npos) << e.what();
    }
    EXPECT_EQ(recorded(make_case({normal({4}, 1)}, {{"aten::neg", {x}, 1}})),
              std::vector<std::string>{"aten::neg"});
  }
}

}  // namespace
}  // namespace lockstep::oracle
