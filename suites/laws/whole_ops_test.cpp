// SPDX-License-Identifier: Apache-2.0
// Ops that run on whole tensors, by a rule or within FallbackReplicate, before the oracle: as any op that is
// equal, whatever the placements of what it reads.
#include <gtest/gtest.h>

#include <set>

#include "engine/tensor/dtensor.h"
#include "engine/values/refused.h"
#include "generators/cases/programs.h"
#include "oracle/program/options.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

using oracle::Arg;
using oracle::Ref;
using Shape = std::vector<int64_t>;

struct Sample {
  std::string op;
  std::vector<Arg> args;
  std::optional<Shape> gradient;  // of the first result; none: there is no derivative
  int64_t results = 1;
  Shape index{};  // of a second input
  c10::ScalarType dtype = c10::ScalarType::Float;
};

const Ref kX{0}, kIndex{1};
const std::vector<Sample> kRuled = {
    {"aten::prod", {kX, oracle::None{}}, Shape{}},
    {"aten::nonzero", {kX}, std::nullopt},
    {"aten::index.Tensor", {kX, std::vector<Ref>{kIndex}}, Shape{5, 6}, 1, {5}},
    {"aten::one_hot", {kIndex, int64_t{4}}, std::nullopt, 1, {5}},
};
const std::vector<Sample> kFallback = {
    {"aten::repeat", {kX, Shape{2, 3}}, Shape{8, 18}},
    {"aten::glu", {kX, int64_t{1}}, Shape{4, 3}},
    {"aten::trace", {kX}, std::nullopt},
    {"aten::median", {kX}, Shape{}},
    {"aten::kthvalue", {kX, int64_t{2}, int64_t{0}, false}, Shape{6}, 2},
    {"aten::mode", {kX, int64_t{0}, false}, Shape{6}, 2},
    {"aten::count_nonzero", {kX, oracle::None{}}, std::nullopt},
    {"aten::take", {kX, kIndex}, std::nullopt, 1, {5}},
    {"aten::bincount", {kIndex, oracle::None{}, int64_t{0}}, std::nullopt, 1, {5}},
    {"aten::huber_loss", {kX, kX, int64_t{1}, 1.0}, Shape{}},
};

oracle::Case case_of(const Sample& s, const Placement& p) {
  oracle::Case c;
  c.suite = "ops";
  c.mesh = DeviceMesh({3});
  const auto input = [&](c10::ScalarType dtype, Shape shape, oracle::Values values, bool leaf) {
    const bool fits = shard_dim(p) < std::ssize(shape);
    c.placements.push_back({{fits ? p : Placement(Replicate{})}, {}});
    c.program.inputs.push_back({dtype, std::move(shape), {}, std::move(values), leaf});
    return Ref{std::ssize(c.program.inputs) - 1};
  };
  input(s.dtype, {4, 6}, {oracle::ValueKind::kIntegers, 3, -3, 3, {}}, s.gradient.has_value());
  if (!s.index.empty())
    input(c10::ScalarType::Long, s.index, {oracle::ValueKind::kIndex, 4, 0, 3, {}}, false);
  std::optional<Ref> grad;
  if (s.gradient) grad = input(s.dtype, *s.gradient, {oracle::ValueKind::kIntegers, 5, -3, 3, {}}, false);
  const Ref result{std::ssize(c.program.inputs)};
  c.program.calls.push_back({s.op, s.args, s.results});
  if (grad)
    c.program.calls.push_back({"lockstep::backward", {std::vector<Ref>{result}, std::vector<Ref>{*grad}}, 1});
  return c;
}

void expect_equal(const std::vector<Sample>& samples) {
  LockstepEngine engine;
  for (const auto& s : samples)
    for (const auto& p :
         {Placement(Replicate{}), Placement(Shard{0}), Placement(Shard{1}), Placement(Partial{})}) {
      const auto c = case_of(s, p);
      oracle::validate(c);
      const auto outcome = judge_against_oracle(c, engine, Allowed::kEqual);
      EXPECT_TRUE(std::holds_alternative<Passed>(outcome))
          << s.op << ' ' << p << ": " << explanation_of(outcome);
    }
}

// Catches: a gradient that is not the single device's, an op that the oracle cannot match.
TEST(WholeOps, OfRulesAreEqual) {
  expect_equal(kRuled);
}

// Catches: the same where the op has no rule.
TEST(WholeOps, OfTheFallbackAreEqual) {
  const FallbackReplicate allow;
  expect_equal(kFallback);
}

// Catches: an option of a Case that its engine does not read, ops that are not counted.
TEST(WholeOps, ACaseLetsThemRunWholeByItsOption) {
  LockstepEngine engine;
  for (const auto& s : kFallback) {
    auto c = case_of(s, Shard{0});
    EXPECT_THROW(engine.run(c, false), Refused) << s.op;
    oracle::allow_fallback(c);
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    EXPECT_GT(engine.run(c, false).fallbacks, 0) << s.op;
    const auto outcome = judge_against_oracle(c, engine, Allowed::kEqual);
    EXPECT_TRUE(std::holds_alternative<Passed>(outcome)) << s.op << ": " << explanation_of(outcome);
  }
}

// Catches: an op that is taken for one without a rule and has one now, a template that no case reaches.
TEST(WholeOps, GeneratedCasesCallEveryOpWithoutARule) {
  LockstepEngine engine;
  std::set<std::string> missing;
  for (const auto& op : generators::unruled_templates()) missing.insert(op.op);
  const auto all = missing;
  for (uint64_t i = 0; i < 3000; ++i) {
    const auto c = generators::generate("edges", 7, i);
    const auto& calls = c.program.calls;
    const auto is_unruled = [&](const oracle::Call& call) { return all.contains(call.op); };
    const auto first = std::find_if(calls.begin(), calls.end(), is_unruled);
    if (first == calls.end()) continue;
    ASSERT_TRUE(oracle::allows_fallback(c)) << first->op;
    try {
      EXPECT_GT(engine.run(c, false).fallbacks, 0) << first->op << " " << oracle::to_token(c);
    } catch (const std::exception& e) {
      EXPECT_TRUE(refusal_of(e, c)) << e.what();  // of another call, by its placements
      continue;
    }
    for (const auto& call : calls) missing.erase(call.op);
  }
  EXPECT_TRUE(missing.empty()) << *missing.begin();
}

// Catches: an option that lets through what whole tensors cannot do.
TEST(WholeOps, WhatWholeTensorsCannotDoRefusesByName) {
  LockstepEngine engine;
  for (const Sample& s : {Sample{"aten::unfold", {kX, int64_t{1}, int64_t{2}, int64_t{1}}, std::nullopt},
                          Sample{"aten::resize_", {kX, Shape{2}, oracle::None{}}, std::nullopt}}) {
    auto c = case_of(s, Shard{0});
    oracle::allow_fallback(c);
    try {
      engine.run(c, false);
      ADD_FAILURE() << s.op << " ran";
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.op, s.op);
      EXPECT_EQ(refused.why, Refusal::kNoRule);
    }
  }
}

}  // namespace
}  // namespace lockstep::suites
