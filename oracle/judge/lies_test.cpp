// SPDX-License-Identifier: Apache-2.0
// Timelines of which one thing is untrue, and all else agrees: whatever an entry says is looked at.
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "oracle/judge/malformed.h"
#include "oracle/judge/places.h"
#include "oracle/judge/same_form.h"
#include "oracle/judge/testing.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/slicing.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;
using Dims = std::vector<int64_t>;
using Locals = std::vector<at::Tensor>;

at::Tensor neg(const Locals& in) {
  return at::neg(in[0]);
}

Case of_one(const char* placement, Call call, Dims shape = {5, 6}) {
  return make_case({input(std::move(shape), 1)}, {placement}, {std::move(call)});
}
const Call kNeg{"aten::neg", {Ref{0}}, 1};

// Would catch: memory of an input that there is not.
TEST(Lies, OfWhoseMemoryAResultIs) {
  for (const int64_t alias : {-2, 1}) {
    HandEngine e(of_one("[S0]", kNeg));
    const Held x = e.input(0), y = e.op("aten::neg", {x}, {}, e.plain().values[1], "[S0]", neg);
    EXPECT_TRUE(e.judge({x, y}).passed());
    e.timeline[0].aliases = {alias};
    expect_fault(e.judge({x, y}), Condition::kMalformed, 0, concat("a result is input ", alias, ", of 1"));
  }
}

// Would catch: as many ranks in another shape, or others.
TEST(Lies, OfTheMesh) {
  const DeviceMesh mesh({2, 2});
  const auto on = [](const DeviceMesh& other, Placements placements) {
    return TensorRecord{
        std::make_shared<const Spec>(other, std::move(placements), Dims{4}, ScalarType::Float), {}, {}};
  };
  const Placement r = Replicate{};
  EXPECT_EQ(malformed(on(mesh, {r, r}), &mesh), "");
  EXPECT_NE(malformed(on(DeviceMesh({4}), {r}), &mesh), "");
  EXPECT_NE(malformed(on(DeviceMesh({2, 2}, {}, {3, 2, 1, 0}), {r, r}), &mesh), "");
}

// Would catch: lists or numbers among the arguments that are not the Program's, where the values are.
TEST(Lies, OfArguments) {
  HandEngine sum(of_one("[R]", {"aten::sum.dim_IntList", {Ref{0}, Dims{1}, false, None{}}, 1}));
  const Held x = sum.input(0);
  const Held rows = sum.op("aten::sum.dim_IntList", {x}, {Dims{0}, false, {}}, sum.plain().values[1], "[R]",
                           [](const Locals& in) { return at::sum(in[0], 1); });
  expect_fault(sum.judge({x, rows}), Condition::kSequence, 0, "argument 1 (dim)");

  HandEngine add(of_one("[S0]", {"aten::add.Scalar", {Ref{0}, 0.0, int64_t{1}}, 1}));
  const Held y = add.input(0);
  const Held same = add.op("aten::add.Scalar", {y}, {-0.0, int64_t{1}}, add.plain().values[1], "[S0]",
                           [](const Locals& in) { return in[0].clone(); });
  expect_fault(add.judge({y, same}), Condition::kSequence, 0, "argument 1 (other)");
}

// Would catch: a result that is asked for and that nobody has computed; one of another dtype than it is said
// to be.
TEST(Lies, OfResults) {
  HandEngine max(of_one("[S0]", {"aten::max.dim", {Ref{0}, int64_t{1}, false}, 2}));
  const Held x = max.input(0);
  const Held values = max.op("aten::max.dim", {x}, {int64_t{1}, false}, max.plain().values[1], "[S0]",
                             [](const Locals& in) { return std::get<0>(at::max(in[0], 1)); });
  max.timeline[0].outputs.emplace_back();
  max.timeline[0].aliases.push_back(-1);
  expect_fault(max.judge({x, values, {}}), Condition::kSequence, 0, "result 1 is undefined");
  max.timeline[0].outputs.pop_back();
  max.timeline[0].aliases.pop_back();
  expect_fault(max.judge({x, values, {}}), Condition::kSequence, 0,
               "it has 1 results, where the plain run has 2");

  HandEngine e(of_one("[S0]", kNeg));
  const Held y = e.input(0), n = e.op("aten::neg", {y}, {}, e.plain().values[1], "[S0]", neg);
  const Spec& spec = *n.spec;
  e.timeline[0].outputs[0].spec =
      std::make_shared<const Spec>(spec.with_tensor(spec.shape(), spec.stride(), ScalarType::Double));
  expect_fault(e.judge({y, n}), Condition::kSequence, 0, "result 0 is said to be f64, and is f32");
  EXPECT_EQ(first_mismatch({e.plain().values[1]}, n.record()), -1);
  EXPECT_EQ(first_mismatch({e.plain().values[1]}, e.timeline[0].outputs[0]), 0);
}

// Would catch: a copy of which one rank has lost the value, the first as any other.
TEST(Lies, OfACopy) {
  for (const size_t rank : {0, 1, 2}) {
    HandEngine e(of_one("[S0]", kNeg));
    const Held x = e.input(0);
    Held copy = e.op("aten::clone", {x}, {c10::IValue()}, e.plain().values[0], "[S0]",
                     [](const Locals& in) { return in[0].clone(); });
    copy.locals[rank].zero_();
    e.timeline[0].outputs = {copy.record()};
    const Held y = e.op("aten::neg", {copy}, {}, e.plain().values[1], "[S0]", neg);
    expect_fault(e.judge({x, y}), Condition::kOp, 0, concat("differs from its source at position ", rank));
  }
}

// Would catch: a copy into other memory than was made, taken for a clone.
TEST(Lies, OfWhereACopyGoes) {
  HandEngine e(of_one("[S0]", kNeg));
  const Held x = e.input(0), other = e.place(e.plain().values[1], "[S0]");
  for (const bool same : {true, false}) {
    const Held& into = same ? x : other;
    e.timeline.clear();
    e.op("aten::new_empty_strided", {x}, {}, e.plain().values[0], "[S0]",
         [](const Locals& in) { return in[0]; });
    e.op("aten::copy_", {into, x}, {false}, e.plain().values[0], "[S0]",
         [](const Locals& in) { return in[1]; });
    EXPECT_EQ(in_one_form(e.timeline).size(), same ? 1u : 2u);
  }
}

// Would catch: two values that are equal on one device, and no more on the ranks that added them up in two
// orders, called equal there.
TEST(Lies, OfWhatIsEqual) {
  const Case c = make_case({input({5}, 1), input({5}, 1)}, {"[S0]", "[S0]"},
                           {{std::string(kEquality), {Ref{0}, Ref{1}}, 1}});
  const HandEngine e(c);
  const auto& crossing = e.plain().recording.crossings.at(0);
  const at::Tensor x = e.plain().values[0];
  EXPECT_TRUE(crossing.values({x, x}).at(0).item<bool>());
  EXPECT_FALSE(crossing.values({x, x.add(1)}).at(0).item<bool>());
}

// Would catch: a view of what was moved first; one with other bits than what it views.
TEST(Lies, OfAView) {
  const Call t{"aten::t", {Ref{0}}, 1};
  HandEngine moves(of_one("[S0]", t));
  const Held x = moves.input(0), whole = moves.redistribute(x, "[R]");
  moves.timeline.back().implicit = true;
  const Held v = moves.op("aten::t", {whole}, {}, moves.plain().values[1], "[R]",
                          [](const Locals& in) { return in[0].t(); });
  expect_fault(moves.judge({x, v}), Condition::kRule, 1, "it moved what it views");

  HandEngine wrong(of_one("[S0]", t));
  const Held y = wrong.input(0);
  const Held w = wrong.op("aten::t", {y}, {}, wrong.plain().values[1], "[S1]",
                          [](const Locals& in) { return in[0].t().neg(); });
  expect_fault(wrong.judge({y, w}), Condition::kOp, 0, "is not the view of what it reads");
}

// Would catch: the least of what pends as the greatest; an average that is left a sum; a later slice that is
// reduced in a short dtype.
TEST(Lies, OfAnOrder) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"[Pmax]", "over 0: min:f32(fold 0 1 2)", "its order reduces by min what pends as max"},
      {"[Pavg]", "over 0: sum:f32(fold 0 1 2)", "divides a term by 1 where what pends is divided by 3"},
      {"[P]", "over 0: [0:11]=sum:f32(fold 0 1 2); [11:]=sum:bf16(fold 0 1 2)", "reduces f32 in bf16"}};
  for (const auto& [pends, order, said] : table) {
    HandEngine e(of_one(pends, kNeg));
    const Held x = e.input(0);
    const at::Tensor sum = (x.locals[0] + x.locals[1]) + x.locals[2];
    const Held y = e.redistribute(x, "[R]", sum, parse_reduction_order(order));
    const Held n = e.op("aten::neg", {y}, {}, e.plain().values[1], "[R]", neg);
    expect_fault(e.judge({x, n}), Condition::kOp, 0, said);
  }
}

// Would catch: places of what is not zero among the terms of one rank, taken for those of their sum.
TEST(Lies, OfWhatReadsNoValue) {
  HandEngine e(of_one("[P]", {"aten::nonzero", {Ref{0}}, 1}));
  const Held x = e.input(0), n = e.op("aten::nonzero", {x}, {}, e.plain().values[1], "[R]",
                                      [&](const Locals&) { return e.plain().values[1].clone(); });
  expect_fault(e.judge({x, n}), Condition::kRule, 0, "read terms of a reduction that pends as values");
}

// Would catch: a norm of what each rank has whole, added up in another order than the stock op's.
TEST(Lies, OfPartsOfANorm) {
  const Call norm{"aten::linalg_vector_norm", {Ref{0}, 2.0, Dims{1}, false, None{}}, 1};
  for (const char* placement : {"[S0]", "[R]"}) {
    HandEngine e(of_one(placement, norm));
    const Held x = e.input(0);
    const at::Tensor square = e.plain().values[0].square();
    const Held squares = e.op("aten::pow.Tensor_Scalar", {x}, {2.0}, square, placement,
                              [](const Locals& in) { return at::pow(in[0], 2.0); });
    const Held sums =
        e.op("aten::sum.dim_IntList", {squares}, {Dims{1}, false, ScalarType::Float}, e.plain().values[1],
             placement, [](const Locals& in) { return at::sum(in[0], 1); });
    const Held roots = e.op("aten::sqrt", {sums}, {}, e.plain().values[1], placement,
                            [](const Locals& in) { return at::sqrt(in[0]); });
    const Judgement j = e.judge({x, roots});
    if (placement == std::string("[S0]"))
      EXPECT_TRUE(j.passed()) << describe(j);
    else
      expect_fault(j, Condition::kSequence, 0, "the plain run does aten::linalg_vector_norm here");
  }
}

// Would catch: terms that a host reads of another sum, with as many of them, than the Program's local_map.
TEST(Lies, OfTheTermsThatAHostReads) {
  const auto placed = [](const char* placements) { return Target{parse_placements(placements), {}}; };
  const Call map{
      std::string(kLocalMap),
      {std::string("aten::neg"), Ref{0}, placed("[P,R]"), placed("[R,R]"), placed("[P,R]"), Dims{5, 6}},
      1};
  for (const bool moves : {false, true}) {
    HandEngine e(make_case({input({5, 6}, 1)}, {"[P,R]"}, {map}, {2, 2}));
    const Held x = e.input(0);
    Held mapped = x;
    const at::Tensor sum = x.locals[0] + x.locals[2];
    Held read = x;
    if (moves) {
      read = e.redistribute(x, "[R,P]", x.locals[0] + x.locals[2],
                            parse_reduction_order("over 0: sum:f32(fold 0 1)"));
      for (const size_t p : {1, 3})
        read.locals[p] = at::full_like(x.locals[p], identity(ReduceOp::kSum, at::kFloat));
      e.timeline[0].outputs = {read.record()};
      e.timeline[0].implicit = true;
    }
    e.read("lockstep::to_local", read);
    const std::vector<size_t> term =
        moves ? std::vector<size_t>{0, 0, 1, 1} : std::vector<size_t>{0, 1, 2, 3};
    for (size_t p = 0; p < 4; ++p) mapped.locals[p] = at::neg(read.locals[term[p]]);
    const Judgement j = e.judge({x, mapped});
    if (moves)
      expect_fault(j, Condition::kClosed, 1, "is not the value that the plain run reads here");
    else
      EXPECT_TRUE(j.passed()) << describe(j);
  }
}

// Would catch: one half of a tensor that is taken for the other; the same cuts in another order.
TEST(Lies, OfWhereItLies) {
  const HandEngine e(of_one("[S0]", {"aten::split.Tensor", {Ref{0}, int64_t{3}, int64_t{1}}, 2}));
  const auto part = [&](size_t i) { return e.plain().recording.window(e.plain().values[i]); };
  const SpecPtr spec = e.input(0).spec;
  Places places;
  places.begin(part(1), spec);
  EXPECT_EQ(places.of(part(1)).size(), 1u);
  EXPECT_TRUE(places.of(part(2)).empty());

  const DeviceMesh mesh({2, 2});
  const Placements twice{Shard{0}, Shard{0}};
  const auto in_order = [&](Dims order) {
    return std::make_shared<const Spec>(mesh, twice, Dims{8}, Dims{1}, ScalarType::Float, std::move(order));
  };
  EXPECT_TRUE(lies_so({in_order({1, 0})}, *in_order({1, 0})));
  EXPECT_FALSE(lies_so({in_order({0, 1})}, *in_order({1, 0})));
}

}  // namespace
}  // namespace lockstep::oracle
