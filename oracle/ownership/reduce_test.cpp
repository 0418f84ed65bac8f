// SPDX-License-Identifier: Apache-2.0
// Declared orders on values: each kind of node does what it says, slice by slice, and gradient accumulation
// over ranks and microbatches is such a tree.
#include "oracle/ownership/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/testing_orders.h"
#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

constexpr auto kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
constexpr double kInf = std::numeric_limits<double>::infinity();

// Would catch: a fold from the right or as a tree, an average divided at every node, a wider accumulation.
TEST(Reduce, FoldGoesFromTheLeftInTheDtype) {
  const auto t = [](double x, c10::ScalarType dtype) { return at::scalar_tensor(x, dtype); };
  const auto terms = [&](std::vector<double> xs, c10::ScalarType dtype) {
    std::vector<at::Tensor> result;
    for (const double x : xs) result.push_back(t(x, dtype));
    return result;
  };
  const auto folded = [&](std::vector<double> xs, ReduceOp op, c10::ScalarType dtype = at::kFloat) {
    return fold(terms(xs, dtype), op, dtype).item<double>();
  };
  const double tiny = 1.0 / (1 << 24);
  EXPECT_EQ(folded({1, tiny, tiny}, ReduceOp::kSum), 1);
  EXPECT_EQ(folded({tiny, tiny, 1}, ReduceOp::kSum), 1 + 2 * tiny);
  EXPECT_EQ(folded({256, 1, 1}, ReduceOp::kSum, at::kBFloat16), 256);
  EXPECT_EQ(folded({1, 1, 1, 5}, ReduceOp::kAvg), 2);
  EXPECT_EQ(folded({3e38, 3e38, -3e38}, ReduceOp::kAvg), std::numeric_limits<double>::infinity());
  EXPECT_EQ(folded({2, -3, 4}, ReduceOp::kProduct), -24);
  EXPECT_EQ(folded({2, -3, 4}, ReduceOp::kMin), -3);
  EXPECT_EQ(folded({2, -3, 4}, ReduceOp::kMax), 4);
  EXPECT_TRUE(std::isnan(folded({2, std::nan(""), 4}, ReduceOp::kMax)));
  EXPECT_TRUE(std::isnan(folded({2, 4, std::nan("")}, ReduceOp::kMin)));
  EXPECT_EQ(fold(terms({256, 1, 1}, at::kBFloat16), ReduceOp::kSum, at::kFloat).item<double>(), 258);
}

// Would catch: a maximum whose NaN payload or sign of zero depends on the tensor's length, as at::maximum's
// does; of two NaNs the second.
TEST(Reduce, FoldOfSpecialValuesIsTheSameInEverySlice) {
  const float nan = std::nanf("0x123");
  const auto a = at::tensor({-0.0F, 0.0F, nan, 1.0F, -0.0F, nan}).repeat({9});
  const auto b = at::tensor({0.0F, -0.0F, 1.0F, nan, -1.0F, -nan}).repeat({9});
  for (const auto op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum, ReduceOp::kProduct}) {
    const auto whole = fold({a, b}, op, at::kFloat);
    for (int64_t i = 0; i < a.numel(); ++i)
      EXPECT_TRUE(compare(whole.narrow(0, i, 1), fold({a.narrow(0, i, 1), b.narrow(0, i, 1)}, op, at::kFloat))
                      .equal());
    for (const int64_t nan_first : {2, 5})
      EXPECT_TRUE(compare(whole.narrow(0, nan_first, 1), a.narrow(0, nan_first, 1)).equal());
  }
}

// Terms of one rank each, and their value in the order.
std::vector<at::Tensor> random_terms(int64_t count, c10::ScalarType dtype) {
  std::vector<at::Tensor> terms;
  for (int64_t i = 0; i < count; ++i) terms.push_back(at::randn({50}, at::kDouble).to(dtype));
  return terms;
}
at::Tensor reduced(const std::string& order, const std::vector<at::Tensor>& terms) {
  const auto parsed = parse_reduction_order(order);
  return reduce(
      parsed, [&](int64_t rank, int64_t) { return terms.at(static_cast<size_t>(rank)); },
      slice_numbers(parsed, terms[0].sizes()), terms[0].scalar_type());
}

// Would catch: kinds that are taken for each other, children in another order, an odd one that is lost or
// paired with the wrong neighbour, a hop that does not round.
TEST(Reduce, EachKindIsWhatItSays) {
  at::manual_seed(1);
  for (const auto dtype : kDtypes) {
    const auto t = random_terms(5, dtype);
    const auto type = dtype_name(dtype);
    const auto is = [&](const std::string& order, const at::Tensor& wanted) {
      EXPECT_TRUE(compare(wanted, reduced(order, t)).equal()) << order;
    };
    is("sum:" + type + "(fold 0 1 2 3 4)", (((t[0] + t[1]) + t[2]) + t[3]) + t[4]);
    is("sum:" + type + "(fold 3 0 4 2 1)", (((t[3] + t[0]) + t[4]) + t[2]) + t[1]);
    is("sum:" + type + "(tree 0 1 2 3 4)", ((t[0] + t[1]) + (t[2] + t[3])) + t[4]);
    is("sum:" + type + "(tree 4 1 2 0 3)", ((t[4] + t[1]) + (t[2] + t[0])) + t[3]);
    is("sum/5:" + type + "(tree 0 1 2 3 4)", (((t[0] + t[1]) + (t[2] + t[3])) + t[4]) / 5);
    is("sum:" + type + "(fold (fold 0 1) 2 (tree 3 4))", ((t[0] + t[1]) + t[2]) + (t[3] + t[4]));
    is("product:" + type + "(tree 0 1 2 3 4)", ((t[0] * t[1]) * (t[2] * t[3])) * t[4]);
    is("max:" + type + "(tree 0 1 2 3 4)", at::stack(t).amax(0));
    is("min:" + type + "(fold 4 3 2 1 0)", at::stack(t).amin(0));
    const auto hop = dtype == at::kHalf ? at::kBFloat16 : at::kHalf;
    const auto narrow = [&](size_t a, size_t b) { return (t[a].to(hop) + t[b].to(hop)).to(dtype); };
    const auto head = "sum:" + dtype_name(hop);
    is("sum:" + type + "(fold " + head + "(fold 0 1) " + head + "(tree 2 3) 4)",
       (narrow(0, 1) + narrow(2, 3)) + t[4]);
  }
  at::manual_seed(2);
  const auto t = random_terms(7, at::kFloat);
  EXPECT_TRUE(compare(((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + t[6]),
                      reduced("sum:f32(tree 0 1 2 3 4 5 6)", t))
                  .equal());
}

// Would catch: an exact node that casts or rounds on the way, or is divided after rounding.
TEST(Reduce, ExactRoundsOnce) {
  const auto of = [](double x) { return at::scalar_tensor(x, at::kFloat); };
  const double third = 1.0 / 3;
  EXPECT_EQ(reduced("sum:f32(exact 0 1 2)", {of(1e30), of(third), of(-1e30)}).item<float>(),
            static_cast<float>(third));
  // 256 + 1 + 1 in bf16: either 1 is lost by itself.
  EXPECT_EQ(reduced("sum:bf16(exact 0 1 2)", {of(256), of(1), of(1)}).item<float>(), 258);
  EXPECT_EQ(reduced("sum:bf16(exact 0 1)", {of(1 + 0x1p-8 + 0x1p-16), of(-0x1p-9)}).item<float>(), 1);
  // (2^24 + 1) / 5; a sum that is rounded first is 2^24.
  EXPECT_EQ(reduced("sum/5:f32(exact 0 1)", {of(0x1p24 - 1), of(2)}).item<float>(), 3355443.5F);
  EXPECT_EQ(reduced("sum:f32(fold (exact 0 1 2) 3)", {of(0x1p24), of(1), of(1), of(1)}).item<float>(),
            0x1p24F + 4);
}

// Segments of a buffer that a library's ring reduces, each from another rank on and down the ring. Would
// catch: slices that begin one element off, one order for all.
TEST(Reduce, SlicesHaveTheirOwnTrees) {
  at::manual_seed(3);
  const auto t = random_terms(4, at::kFloat);
  const std::string ring =
      "over 0: [0:13]=sum:f32(fold 3 2 1 0); [13:26]=sum:f32(fold 0 3 2 1); [26:39]=sum:f32(fold 1 0 3 2); "
      "[39:]=sum:f32(fold 2 1 0 3)";
  std::vector<at::Tensor> wanted;
  for (int64_t k = 0; k < 4; ++k) {
    const auto part = [&](int64_t rank) {
      return t[static_cast<size_t>((rank + 4) % 4)].slice(0, 13 * k, std::min<int64_t>(13 * (k + 1), 50));
    };
    wanted.push_back(((part(k - 1) + part(k - 2)) + part(k - 3)) + part(k));
  }
  const auto whole = at::cat(wanted);
  EXPECT_TRUE(compare(whole, reduced(ring, t)).equal());
  std::vector<at::Tensor> grids;
  for (const auto& x : t) grids.push_back(x.view({5, 10}).t().contiguous().t());
  EXPECT_TRUE(compare(whole.view({5, 10}), reduced(ring, grids)).equal());
}

// Would catch: a ring that folds upwards or takes what arrived for the left operand, of max and min too: a
// NaN that arrives is lost, of zeros the rank's own stays.
TEST(Reduce, ARingTakesWhatArrivedOnTheRight) {
  at::manual_seed(6);
  for (const auto dtype : kDtypes) {
    const auto t = random_terms(4, dtype);
    const auto type = dtype_name(dtype);
    EXPECT_TRUE(compare(t[0] + (t[1] + (t[2] + t[3])), reduced("sum:" + type + "(ring 3 2 1 0)", t)).equal());
    EXPECT_TRUE(
        compare((t[0] + (t[1] + (t[2] + t[3]))) / 4, reduced("sum/4:" + type + "(ring 3 2 1 0)", t)).equal());
    const auto number = at::full({3}, 1, at::TensorOptions(dtype)), nan = number * NAN, zero = number * 0;
    for (const std::string op : {"max", "min"}) {
      const auto of = [&](const at::Tensor& arrived, const at::Tensor& own) {
        return reduced(op + ":" + type + "(ring 0 1)", {arrived, own});
      };
      EXPECT_TRUE(compare(number, of(nan, number)).equal()) << op << type;
      EXPECT_TRUE(compare(nan, of(number, nan)).equal()) << op << type;
      EXPECT_TRUE(compare(zero, of(-zero, zero)).equal()) << op << type;
      EXPECT_TRUE(compare(-zero, of(zero, -zero)).equal()) << op << type;
    }
  }
}

// What Gloo's sums and products leave of NaNs: quiet, the rank's own before what arrived; a half keeps the
// sign alone and a bfloat16 nothing. Would catch: a payload that survives, or of the other operand.
TEST(Reduce, ARingMakesItsNaNsQuiet) {
  struct Row {
    c10::ScalarType dtype, bits;
    int64_t own, arrived, number, wanted, wanted_of_arrived;
  };
  for (const Row& r : {Row{at::kFloat, at::kInt, 0x7f800003, 0x7fc00001, 0x3f800000, 0x7fc00003, 0x7fc00001},
                       Row{at::kDouble, at::kLong, 0x7ff0000000000003, 0x7ff8000000000001, 0x3ff0000000000000,
                           0x7ff8000000000003, 0x7ff8000000000001},
                       Row{at::kHalf, at::kShort, -0x1fe, 0x7e01, 0x3c00, -0x200, 0x7e00},
                       Row{at::kBFloat16, at::kShort, -0x3e, 0x7fc1, 0x3f80, 0x7fc0, 0x7fc0}}) {
    const auto of = [&](int64_t bits) {
      return at::full({20}, bits, at::TensorOptions(r.bits)).view(r.dtype);
    };
    for (const std::string op : {"sum", "product"}) {
      const auto order = op + ":" + dtype_name(r.dtype) + "(ring 0 1)";
      EXPECT_TRUE(compare(of(r.wanted), reduced(order, {of(r.arrived), of(r.own)})).equal()) << order;
      EXPECT_TRUE(compare(of(r.wanted), reduced(order, {of(r.number), of(r.own)})).equal()) << order;
      EXPECT_TRUE(compare(of(r.wanted_of_arrived), reduced(order, {of(r.arrived), of(r.number)})).equal())
          << order;
    }
  }
}

// Would catch: slices of one tree, apart, that are taken for each other's neighbours.
TEST(Reduce, SlicesApartShareATree) {
  at::manual_seed(7);
  const auto t = random_terms(3, at::kFloat);
  const auto order = parse_reduction_order(
      "over 0: [0:10]=sum:f32(ring 2 1 0); [10:20]=sum:f32(ring 0 2 1); [20:30]=sum:f32(ring 2 1 0); "
      "[30:]=sum:f32(ring 1 0 2)");
  const auto numbers = slice_numbers(order, {50});
  EXPECT_EQ(numbers[25].item<int64_t>(), 0);
  EXPECT_EQ(numbers[35].item<int64_t>(), 3);
  const auto a = t[0] + (t[1] + t[2]), b = t[1] + (t[2] + t[0]), c = t[2] + (t[0] + t[1]);
  const auto wanted = at::cat({a.slice(0, 0, 10), b.slice(0, 10, 20), a.slice(0, 20, 30), c.slice(0, 30)});
  EXPECT_TRUE(compare(wanted, reduced(to_string(order), t)).equal());
}

// Gradients of two microbatches on each of three ranks. Would catch: microbatches taken for ranks, a nested
// order taken for a plain one, a hop's dtype that is not the accumulator's.
TEST(Reduce, AccumulationIsATreeOverRanksAndMicrobatches) {
  at::manual_seed(4);
  std::vector<std::vector<at::Tensor>> g(3);  // by rank, microbatch
  for (auto& of_rank : g) of_rank = random_terms(2, at::kFloat);
  const auto by = [&](const std::string& text) {
    const auto order = parse_reduction_order(text);
    validate(order, 3, 2, 50);
    return reduce(
        order, [&](int64_t rank, int64_t microbatch) { return g.at(size_t(rank)).at(size_t(microbatch)); },
        {}, at::kFloat);
  };
  // One device that accumulates the ranks' batches in rank order.
  auto one = g[0][0] + g[0][1];
  for (const size_t r : {size_t{1}, size_t{2}}) one = one + g[r][0] + g[r][1];
  EXPECT_TRUE(compare(one, by("over 0: sum:f32(fold 0 0.m1 1 1.m1 2 2.m1)")).equal());
  // Each rank accumulates in bf16, then one reduction in f32, divided once.
  const auto accumulated = [&](size_t r) {
    return (g[r][0].to(at::kBFloat16) + g[r][1].to(at::kBFloat16)).to(at::kFloat);
  };
  const auto nested = (accumulated(0) + accumulated(1) + accumulated(2)) / 6;
  EXPECT_TRUE(compare(nested, by("over 0: sum/6:f32(fold sum:bf16(fold 0 0.m1) sum:bf16(fold 1 1.m1) "
                                 "sum:bf16(fold 2 2.m1))"))
                  .equal());
  // A reduction for each microbatch, accumulated afterwards.
  const auto step = [&](size_t m) { return g[0][m] + g[1][m] + g[2][m]; };
  EXPECT_TRUE(
      compare(step(0) + step(1), by("over 0: sum:f32(fold (fold 0 1 2) (fold 0.m1 1.m1 2.m1))")).equal());
  EXPECT_FALSE(one.equal(step(0) + step(1)));
}

// The engine's orders and the oracle's default fold, each written by itself, are one. Would catch: an order
// whose ranks or dimensions are counted another way than they are folded.
TEST(Reduce, RankOrderIsTheDefaultFold) {
  at::manual_seed(5);
  for (const auto* placements : {"[P,P,P]", "[P,Pavg,P]", "[Pavg,Pavg,Pavg]", "[Pmax,Pmax,Pmax]"}) {
    const Spec spec(parse_mesh("2x3x2"), parse_placements(placements), {50}, at::kFloat);
    std::vector<ReduceOp> ops;
    for (const auto& p : spec.placements()) ops.push_back(std::get<Partial>(p).op);
    const auto terms = random_terms(12, at::kFloat);
    EXPECT_TRUE(
        compare(fold_terms(terms, ops, {2, 3, 2}), reduced(to_string(fold_over(spec)), terms)).equal())
        << placements;
  }
}

// Would catch: the identity of a missing contribution changing a value's bits, in any kind of node.
TEST(Reduce, MinusZeroIsNoContribution) {
  const auto values = at::tensor({1.5, -0.0, 0.0, kInf, -kInf, 0x1p-1074, std::nan("0x7")}, at::kDouble);
  for (const auto dtype : kDtypes)
    for (const auto* kind : {"fold", "tree", "exact"})
      for (const size_t at : {size_t{0}, size_t{1}, size_t{2}}) {
        std::vector<at::Tensor> terms(3, at::full({7}, -0.0, at::TensorOptions(dtype)));
        terms[at] = values.to(dtype);
        const auto order = concat("sum:", dtype_name(dtype), "(", kind, " 0 1 2)");
        EXPECT_TRUE(compare(terms[at], reduced(order, terms)).equal()) << order << at;
      }
}

}  // namespace
}  // namespace lockstep::oracle
