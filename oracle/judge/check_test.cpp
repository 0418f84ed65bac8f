// SPDX-License-Identifier: Apache-2.0
// Timelines made by hand, right ones and wrong ones: what is right passes with its reason, and each mismatch
// is named with its place.
#include "oracle/judge/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "engine/values/text.h"
#include "oracle/judge/families.h"
#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Locals = std::vector<at::Tensor>;

at::Tensor mm(const Locals& in) {
  return at::mm(in[0], in[1]);
}

// v0 = x0 x1, contracted over the shards, then reduced.
const std::vector<Call> kMatmul = {{"aten::mm", {Ref{0}, Ref{1}}, 1}};
Case contraction(ScalarType dtype = ScalarType::Float) {
  return make_case({input({5, 40}, 1, dtype), input({40, 6}, 2, dtype)}, {"[S1]", "[S0]"}, kMatmul);
}

// Would catch: a judge that finds differences where there are none.
TEST(Check, ShardedRowsAreEqual) {
  HandEngine e(make_case({input({7, 4}, 1), input({4, 6}, 2)}, {"[S0]", "[R]"}, kMatmul));
  const Held x = e.input(0), w = e.input(1);
  const Held y = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[S0]", mm);
  const Judgement j = e.judge({x, w, y});
  EXPECT_TRUE(j.passed() && j.equal && j.explained.empty()) << describe(j);
  EXPECT_EQ(j.ops, 1u);
  EXPECT_TRUE(at::equal(j.finals[2], e.plain().values[2]));
}

// Would catch: a result that the engine moves by itself, and hands in where no op has put it.
TEST(Check, AResultStaysWhereItsOpPutsIt) {
  HandEngine e(make_case({input({7, 4}, 1), input({4, 6}, 2)}, {"[S0]", "[R]"}, kMatmul));
  const Held x = e.input(0), w = e.input(1);
  const Held y = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[S0]", mm);
  const Held moved = e.redistribute(y, "[R]");
  EXPECT_TRUE(e.judge({x, w, moved}).passed());
  e.timeline.back().implicit = true;
  EXPECT_TRUE(e.judge({x, w, y}).passed());
  expect_fault(e.judge({x, w, moved}), Condition::kFinal, 2, "value 2");
}

// Would catch: forgiveness that nobody hears of, or that is booked on another row.
TEST(Check, WhatIsForgivenIsCounted) {
  HandEngine e(make_case({input({7}, 1)}, {"[S0]"}, {{"aten::neg", {Ref{0}}, 1}}));
  const Held x = e.input(0);
  const auto copied = [](const Locals& in) { return in[0].clone(); };
  const Held copy = e.op("aten::clone", {x}, {c10::IValue()}, e.plain().values[0], "[S0]", copied);
  const Held alias = e.op("aten::detach", {copy}, {}, e.plain().values[0], "[S0]", copied);
  const Held y = e.op("aten::neg", {alias}, {}, e.plain().values[1], "[S0]",
                      [](const Locals& in) { return in[0].neg(); });
  const Judgement j = e.judge({x, y});
  EXPECT_TRUE(j.equal) << describe(j);
  const decltype(j.forgiven) expected = {{{Forgiven::kAlone, "aten::clone"}, 1},
                                         {{Forgiven::kSilent, "aten::detach"}, 1}};
  EXPECT_EQ(j.forgiven, expected);
  EXPECT_EQ(row_of(Forgiven::kFactory, "aten::add").op, "");
  EXPECT_EQ(row_of(Forgiven::kFactory, "aten::zeros").op, "aten::zeros");
}

// Would catch: a difference by the order of a reduction that is not explained, or not said to be one.
TEST(Check, ContractionIsExplained) {
  for (const auto dtype : {ScalarType::Float, ScalarType::Double, ScalarType::BFloat16, ScalarType::Half}) {
    HandEngine e(contraction(dtype));
    const Held x = e.input(0), w = e.input(1);
    const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
    const Held y = e.redistribute(p, "[R]");
    const Judgement j = e.judge({x, w, y});
    ASSERT_TRUE(j.passed()) << describe(j);
    EXPECT_EQ(j.equal, at::equal(y.locals[0], e.plain().values[2]));
    EXPECT_FALSE(j.equal);
    ASSERT_FALSE(j.explained.empty());
    EXPECT_EQ(j.explained[0].why, Why::kReductionOrder);
    EXPECT_EQ(j.explained[0].op, "aten::mm");
    EXPECT_TRUE(at::equal(j.finals[2], y.locals[0]));
  }
}

// Would catch: a replay that excuses whatever the ranks did. The bits are those of the rule as declared; the
// rule is wrong.
TEST(Check, WrongKindOfPartialIsADifference) {
  HandEngine e(contraction());
  const Held x = e.input(0), w = e.input(1);
  const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[Pavg]", mm);
  const Held y = e.redistribute(p, "[R]");
  const Judgement j = e.judge({x, w, y});
  expect_fault(j, Condition::kRule, 0, "aten::mm");
}

// Would catch: a bound so wide that a bias counted three times, or a rank that is left out, fits in.
TEST(Check, DoubleCountedBiasAndMissingRankAreDifferences) {
  const std::vector<Call> calls = {{"aten::addmm", {Ref{0}, Ref{1}, Ref{2}, int64_t{1}, int64_t{1}}, 1}};
  for (const auto dtype : {ScalarType::Float, ScalarType::BFloat16}) {
    HandEngine e(make_case({input({6}, 3, dtype), input({5, 40}, 1, dtype), input({40, 6}, 2, dtype)},
                           {"[R]", "[S1]", "[S0]"}, calls));
    const Held b = e.input(0), x = e.input(1), w = e.input(2);
    const std::vector<c10::IValue> ones = {int64_t{1}, int64_t{1}};
    e.op("aten::addmm", {b, x, w}, ones, e.plain().values[3], "[P]",
         [](const Locals& in) { return at::addmm(in[0], in[1], in[2]); });
    expect_fault(e.judge({b, x, w, {}}), Condition::kRule, 0, "wrong by its rule, not by rounding");
  }
  HandEngine e(contraction());
  const Held x = e.input(0), w = e.input(1);
  Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
  p.locals[1] = at::zeros_like(p.locals[1]);
  e.timeline[0].outputs = {p.record()};
  expect_fault(e.judge({x, w, p}), Condition::kOp, 0, "position 1");
}

// Would catch: an order that is believed. It must be the one that was taken, and take every term once.
TEST(Check, WrongOrdersAreDifferences) {
  const auto declared = [](const std::string& order) {
    HandEngine e(contraction());
    const Held x = e.input(0), w = e.input(1);
    const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
    const auto& t = p.locals;
    const Held y = e.redistribute(p, "[R]", (t[2] + t[0]) + t[1], parse_reduction_order(order));
    return e.judge({x, w, y});
  };
  EXPECT_TRUE(declared("over 0: sum:f32(fold 2 0 1)").passed());
  const std::pair<const char*, const char*> wrong[] = {
      {"over 0: sum:f32(fold 0 1 2)", "in the order that is declared: over 0: sum:f32(fold 0 1 2)"},
      {"over 0: sum:f32(fold 2 0)", "each of the 3 terms once"},
      {"over 0: sum:f32(fold 2 0 0)", "each of the 3 terms once"},
      {"over 0: sum:f32(fold 2 0 1.m1)", "each of the 3 terms once"},
      {"over 0: max:f32(fold 2 0 1)", "pends as sum"},
      {"over 0: sum/3:f32(fold 2 0 1)", "divides a term by 3 where what pends is divided by 1"},
      {"over 0: sum:i32(fold 2 0 1)", "reduces f32 in i32"},
      {"over 1: sum:f32(fold 2 0 1)", "over mesh dimension 1, where nothing pends"},
      {"sum:f32(fold 0)", "over no mesh dimension"},
      {"none", "neither reduced by its order nor still pending"}};
  for (const auto& [order, said] : wrong) expect_fault(declared(order), Condition::kOp, 1, said);
}

// v0 = x0 + x1; v1 = v0 * x0.
Case two_ops() {
  return make_case(
      {input({6, 2}, 1), input({6, 2}, 2)}, {"[S0]", "[S0]"},
      {{"aten::add.Tensor", {Ref{0}, Ref{1}, int64_t{1}}, 1}, {"aten::mul.Tensor", {Ref{2}, Ref{0}}, 1}});
}
at::Tensor add(const Locals& in) {
  return at::add(in[0], in[1]);
}
at::Tensor mul(const Locals& in) {
  return at::mul(in[0], in[1]);
}
const std::vector<c10::IValue> kAlpha = {int64_t{1}};

// Would catch: a value that is right in itself and stands in the wrong place; one that came from nowhere;
// bits that changed between two ops.
TEST(Check, EveryReadIsOfItsOwnValue) {
  for (const int mistake : {0, 1, 2, 3}) {
    HandEngine e(two_ops());
    const Held x = e.input(0), y = e.input(1);
    const Held s = e.op("aten::add.Tensor", {x, y}, kAlpha, e.plain().values[2], "[S0]", add);
    Held read = s;
    if (mistake == 1) read = x;
    if (mistake == 2) read.locals = {at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2})};
    if (mistake == 3) {
      read.locals[2] = read.locals[2].clone();
      read.locals[2].view({-1})[3] = -0.0;
    }
    const Held p = e.op("aten::mul.Tensor", {read, x}, {}, e.plain().values[3], "[S0]", mul);
    const Judgement j = e.judge({x, y, s, p});
    if (mistake == 0) {
      EXPECT_TRUE(j.passed() && j.equal) << describe(j);
    }
    if (mistake == 1) expect_fault(j, Condition::kClosed, 1, "another value of the Program");
    if (mistake == 2) expect_fault(j, Condition::kClosed, 1, "no value of the Program");
    if (mistake == 3) expect_fault(j, Condition::kClosed, 1, "position 2");
  }
}

// Would catch: an op that is left out, done twice, done with another argument.
TEST(Check, TheSequenceIsThePlainRuns) {
  for (const int mistake : {0, 1, 2, 3}) {
    HandEngine e(two_ops());
    const Held x = e.input(0), y = e.input(1);
    const Held s =
        e.op("aten::add.Tensor", {x, y}, mistake == 3 ? std::vector<c10::IValue>{int64_t{2}} : kAlpha,
             e.plain().values[2], "[S0]", add);
    const Held p = e.op("aten::mul.Tensor", {s, x}, {}, e.plain().values[3], "[S0]", mul);
    if (mistake == 0) e.timeline.pop_back();
    if (mistake == 1) e.timeline.erase(e.timeline.begin());
    if (mistake == 2) e.timeline.push_back(e.timeline.back());
    const std::vector<std::string> said = {"the engine nothing", "the plain run does aten::add.Tensor here",
                                           "the plain run has ended", "argument 2 (alpha) is 2"};
    const std::vector<size_t> where = {1, 0, 2, 0};
    expect_fault(e.judge({x, y, s, p}), Condition::kSequence, where[static_cast<size_t>(mistake)],
                 said[static_cast<size_t>(mistake)]);
  }
}

// Would catch: a wrong value of one rank only, a replica that drifted, a result that changed after the last
// op.
TEST(Check, EveryRankMustHoldItsPart) {
  for (const int mistake : {0, 1, 2}) {
    HandEngine e(make_case({input({6, 2}, 1)}, {"[S0,R]"}, {{"aten::neg", {Ref{0}}, 1}}, {3, 2}));
    const Held x = e.input(0);
    Held n = e.op("aten::neg", {x}, {}, e.plain().values[1], "[S0,R]",
                  [](const Locals& in) { return at::neg(in[0]); });
    if (mistake < 2) {
      n.locals[mistake == 0 ? 2 : 3] = at::add(n.locals[2], 1e-6);
      e.timeline[0].outputs = {n.record()};
    }
    Held after = n;
    if (mistake == 2) after.locals[5] = at::neg(after.locals[5]);
    const Judgement j = e.judge({x, after});
    if (mistake == 0) expect_fault(j, Condition::kOp, 0, "position 2");
    if (mistake == 1) expect_fault(j, Condition::kOp, 0, "replicas of result 0 at positions 2 and 3 differ");
    if (mistake == 2) expect_fault(j, Condition::kFinal, 1, "value 1");
  }
}

// Would catch: integers excused by rounding; an op that takes a pending sum where none may.
TEST(Check, NothingIsExplainedWithoutItsBound) {
  HandEngine e(make_case({input({5, 6}, 1)}, {"[P]"}, {{"aten::exp", {Ref{0}}, 1}}));
  const Held x = e.input(0);
  e.op("aten::exp", {x}, {}, e.plain().values[1], "[P]", [](const Locals& in) { return at::exp(in[0]); });
  expect_fault(e.judge({x, {}}), Condition::kRule, 0, "aten::exp");

  HandEngine s(make_case({input({5, 6}, 1)}, {"[P]"}, {{"aten::sin", {Ref{0}}, 1}}));
  s.op("aten::sin", {s.input(0)}, {}, s.plain().values[1], "[P]",
       [](const Locals& in) { return at::sin(in[0]); });
  expect_fault(s.judge({s.input(0), {}}), Condition::kRule, 0, "no licence allows it to pass a reduction");

  Case c = make_case({input({6}, 1)}, {"[S0]"}, {{"aten::sum", {Ref{0}, None{}}, 1}});
  c.program.inputs[0] = {ScalarType::Long, {6}, {}, {ValueKind::kIntegers, 1, -9, 9, {}}, false};
  HandEngine i(c);
  const Held n = i.input(0);
  i.op("aten::sum", {n}, {c10::IValue()}, i.plain().values[1], "[Pmax]",
       [](const Locals& in) { return at::sum(in[0]); });
  expect_fault(i.judge({n, {}}), Condition::kRule, 0, "leave a reduction");
}

// Would catch: terms of a sum that may not be cast one by one, as mixed precision casts them; those of a
// maximum, or of integers, that may, and a sum that pends where a Program casts it.
TEST(Check, TermsOfASumMayBeCast) {
  const auto judge = [](ScalarType from, ScalarType to, const char* pending, bool moves, bool said = true) {
    Case c =
        make_case({input({5, 6}, 1)}, {pending}, {{"aten::to.dtype", {Ref{0}, to, false, false, None{}}, 1}});
    c.program.inputs[0] = {from, {5, 6}, {}, {ValueKind::kNormal, 1, -9, 9, {}}, false};
    HandEngine e(c);
    const Held x = e.input(0);
    Held y = e.op("aten::_to_copy", {x}, {to, {}, {}, {}, false, {}}, e.plain().values[1], pending,
                  [to](const Locals& in) { return in[0].to(to); });
    e.timeline.back().implicit = said;
    if (moves) y = e.redistribute(y, "[R]");
    return e.judge({x, y});
  };
  for (const auto& [from, to] : {std::pair(ScalarType::Float, ScalarType::BFloat16),
                                 std::pair(ScalarType::BFloat16, ScalarType::Double)}) {
    const auto j = judge(from, to, "[P]", true);
    EXPECT_TRUE(j.passed()) << describe(j);
    EXPECT_FALSE(j.explained.empty());
  }
  const std::string refused = "no licence allows it to pass a reduction";
  expect_fault(judge(ScalarType::Float, ScalarType::BFloat16, "[Pmax]", false), Condition::kRule, 0, refused);
  expect_fault(judge(ScalarType::Float, ScalarType::Int, "[P]", false), Condition::kRule, 0, refused);
  expect_fault(judge(ScalarType::Float, ScalarType::BFloat16, "[P]", false, false), Condition::kRule, 0,
               refused);
}

// Would catch: a factor at which the sign of a zero term, or a NaN, is another than that of their sum; one of
// the two factors that is not looked at.
TEST(Check, FactorsOfTermsArePositive) {
  const std::string refused = "no licence allows it to pass a reduction";
  const double inf = std::numeric_limits<double>::infinity();
  const auto expect = [&](const Judgement& j, bool licensed) {
    if (licensed)
      EXPECT_TRUE(j.passed()) << describe(j);
    else
      expect_fault(j, Condition::kRule, 0, refused);
  };
  for (const double alpha : {1.0, 2.5, 0.0, -1.0, inf}) {
    HandEngine e(make_case({input({5, 6}, 1), input({5, 6}, 2)}, {"[P]", "[P]"},
                           {{"aten::add.Tensor", {Ref{0}, Ref{1}, alpha}, 1}}));
    const Held x = e.input(0), y = e.input(1);
    const Held z = e.op("aten::add.Tensor", {x, y}, {alpha}, e.plain().values[2], "[P]",
                        [&](const Locals& in) { return at::add(in[0], in[1], alpha); });
    expect(e.judge({x, y, z}), alpha > 0 && alpha < inf);
  }
  for (const double beta : {1.0, -1.0, 0.5})
    for (const double alpha : {1.0, -1.0, 0.5}) {
      HandEngine e(make_case({input({5, 6}, 3), input({5, 40}, 1), input({40, 6}, 2)},
                             {"[P]", "[S1]", "[S0]"},
                             {{"aten::addmm", {Ref{0}, Ref{1}, Ref{2}, beta, alpha}, 1}}));
      const Held b = e.input(0), x = e.input(1), w = e.input(2);
      const Held z = e.op("aten::addmm", {b, x, w}, {beta, alpha}, e.plain().values[3], "[P]",
                          [&](const Locals& in) { return at::addmm(in[0], in[1], in[2], beta, alpha); });
      expect(e.judge({b, x, w, z}), beta > 0 && alpha > 0);
    }
}

// Would catch: an overflow in one order that is called a difference, or passes unsaid; NaN that is called
// one.
TEST(Check, OverflowIsSaidAndNanIsNoDifference) {
  Case c = contraction(ScalarType::Half);
  for (Input& in : c.program.inputs) in.values = {ValueKind::kBits, 0, 0, 0, {}};
  // One product of 200 * 200 for each rank: 40000, 40000, -40000. The plain sum is done in float.
  c.program.inputs[0].values.bits.assign(200, 0);
  c.program.inputs[1].values.bits.assign(240, 0);
  for (const size_t k : {size_t{0}, size_t{14}, size_t{28}}) {
    c.program.inputs[0].values.bits[k] = 0x5a40;
    c.program.inputs[1].values.bits[k * 6] = k == 28 ? 0xda40 : 0x5a40;
  }
  c.program.inputs[0].values.bits[40] = 0x7e01;  // NaN in row 1
  HandEngine e(c);
  const Held x = e.input(0), w = e.input(1);
  const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
  const Held y = e.redistribute(p, "[R]");
  EXPECT_TRUE(std::isinf(y.locals[0][0][0].item<float>()));
  EXPECT_EQ(e.plain().values[2][0][0].item<float>(), 40000.0F);
  const Judgement j = e.judge({x, w, y});
  ASSERT_TRUE(j.passed()) << describe(j);
  EXPECT_FALSE(j.equal);
  EXPECT_EQ(j.explained.back().why, Why::kOverflow) << describe(j);
}

// Would catch: a replay on dense slices, where the stock kernel rounds by the gaps between a view's elements;
// and one that takes either order for right.
TEST(Check, ViewIsReplayedInItsMemory) {
  const int64_t last = 2;
  for (const std::string placement : {"[S0]", "[S1]"}) {
    HandEngine e(make_case(
        {input({6, 34, 9}, 0)}, {placement},
        {{"aten::select.int", {Ref{0}, last, int64_t{5}}, 1}, {"aten::sum", {Ref{1}, None{}}, 1}}, {2}));
    const Held x = e.input(0);
    const Held v = e.op("aten::select.int", {x}, {last, int64_t{5}}, e.plain().values[1], placement,
                        [](const Locals& in) { return in[0].select(2, 5); });
    const auto begun = e.timeline;
    const auto sum = [&](const std::function<at::Tensor(const at::Tensor&)>& layout) {
      return e.op("aten::sum", {v}, {c10::IValue()}, e.plain().values[2], "[P]",
                  [&](const Locals& in) { return at::sum(layout(in[0])); });
    };
    const Held strided = sum([](const at::Tensor& t) { return t; });
    const Judgement j = e.judge({x, v, strided});
    EXPECT_TRUE(j.passed()) << describe(j);
    e.timeline = begun;
    const Held dense = sum([](const at::Tensor& t) { return t.contiguous(); });
    ASSERT_NE(dense.record().digests, strided.record().digests);
    expect_fault(e.judge({x, v, dense}), Condition::kOp, 1, "aten::sum");
  }
}

// x0 is written through a view of its second row, then read.
Case through_a_view() {
  return make_case({input({3, 6}, 1)}, {"[S1]"},
                   {{"aten::select.int", {Ref{0}, int64_t{0}, int64_t{1}}, 1},
                    {"aten::mul_.Scalar", {Ref{1}, 2.0}, 1},
                    {"aten::neg", {Ref{0}}, 1}});
}

// Would catch: an update that is lost because a view became a copy, whether the base is read later or just
// kept.
TEST(Check, WritesThroughViewsReachTheBase) {
  for (const bool aliases : {true, false}) {
    HandEngine e(through_a_view());
    const Held x = e.input(0);
    const Held row =
        e.op("aten::select.int", {x}, {int64_t{0}, int64_t{1}}, e.plain().values[1], "[S0]",
             [&](const Locals& in) { return aliases ? in[0].select(0, 1) : in[0].select(0, 1).clone(); });
    e.in_place("aten::mul_.Scalar", {row}, {2.0}, [](const Locals& in) { in[0].mul_(2.0); });
    const Held n = e.op("aten::neg", {x}, {}, e.plain().values[3], "[S1]",
                        [](const Locals& in) { return at::neg(in[0]); });
    const Judgement j = e.judge({x, row, row, n});
    if (aliases) {
      EXPECT_TRUE(j.passed() && j.equal) << describe(j);
    } else {
      expect_fault(j, Condition::kClosed, 2, "an older state of this one");
      e.timeline.pop_back();
      expect_fault(e.judge({x, row, row, n}), Condition::kSequence, 2, "aten::neg");
    }
  }
}

// Would catch: an order that differs from the plain one and is not carried on to what comes after it, in
// place too.
TEST(Check, OwnValuesGoOnAfterAnExplanation) {
  HandEngine e(make_case({input({5, 40}, 1), input({40, 6}, 2)}, {"[S1]", "[S0]"},
                         {{"aten::mm", {Ref{0}, Ref{1}}, 1},
                          {"aten::select.int", {Ref{2}, int64_t{0}, int64_t{1}}, 1},
                          {"aten::exp_", {Ref{3}}, 1},
                          {"aten::neg", {Ref{2}}, 1}}));
  const Held x = e.input(0), w = e.input(1);
  const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
  const Held y = e.redistribute(p, "[R]");
  const Held row = e.op("aten::select.int", {y}, {int64_t{0}, int64_t{1}}, e.plain().values[3], "[R]",
                        [](const Locals& in) { return in[0].select(0, 1); });
  e.in_place("aten::exp_", {row}, {}, [](const Locals& in) { in[0].exp_(); });
  Held n =
      e.op("aten::neg", {y}, {}, e.plain().values[5], "[R]", [](const Locals& in) { return at::neg(in[0]); });
  const Judgement j = e.judge({x, w, y, row, row, n});
  EXPECT_TRUE(j.passed() && !j.equal) << describe(j);
  EXPECT_TRUE(at::equal(j.finals[5], n.locals[0]));
  // The plain run's bits are not the engine's any more.
  Held plain = e.place(e.plain().values[5], "[R]");
  expect_fault(e.judge({x, w, y, row, row, plain}), Condition::kFinal, 5, "value 5");
}

// Would catch: a draw into a view, after which the rest of its base is taken for the plain run's values.
TEST(Check, DrawsThroughViewsLeaveTheRest) {
  HandEngine e(make_case({input({5, 40}, 1), input({40, 6}, 2)}, {"[S1]", "[S0]"},
                         {kMatmul[0],
                          {"aten::select.int", {Ref{2}, int64_t{0}, int64_t{1}}, 1},
                          {"aten::uniform_", {Ref{3}, 0.0, 1.0, None{}}, 1},
                          {"aten::neg", {Ref{2}}, 1}}));
  const Held x = e.input(0), w = e.input(1);
  const Held p = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]", mm);
  const Held y = e.redistribute(p, "[R]");
  const Held row = e.op("aten::select.int", {y}, {int64_t{0}, int64_t{1}}, e.plain().values[3], "[R]",
                        [](const Locals& in) { return in[0].select(0, 1); });
  e.in_place("aten::uniform_", {row}, {0.0, 1.0, c10::IValue()},
             [&](const Locals& in) { in[0].copy_(e.plain().values[4]); });
  e.timeline.back().random_offset = 0;
  const Held n =
      e.op("aten::neg", {y}, {}, e.plain().values[5], "[R]", [](const Locals& in) { return at::neg(in[0]); });
  const Judgement j = e.judge({x, w, y, row, row, n});
  ASSERT_TRUE(j.passed() && !j.equal) << describe(j);
  EXPECT_TRUE(at::equal(j.finals[5], n.locals[0]));
}

// Would catch: an entry without a reason, or an op that stands in the table twice.
TEST(Families, SayWhy) {
  std::set<std::string_view> names;
  for (const OpFamily& f : families()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    const bool by_overload = f.name == "div_mode";
    EXPECT_EQ(find_family(by_overload ? "aten::div_.Tensor_mode" : "aten::" + std::string(f.name)), &f);
    EXPECT_TRUE(f.bound == Bound::kTwoPaths || f.roundings != nullptr) << f.name;
  }
  EXPECT_EQ(find_family("aten::_foreach_add_.List"), find_family("aten::add.Tensor"));
  EXPECT_EQ(find_family("aten::sin"), nullptr);
  for (const EqualOps& e : equal_ops()) {
    for (const auto name : split(e.names, ' ')) EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(e.reason.empty()) << e.names;
  }
  for (const Forgiveness& f : forgiveness()) EXPECT_FALSE(f.reason.empty()) << name(f.kind) << f.op;
}

}  // namespace
}  // namespace lockstep::oracle
