// SPDX-License-Identifier: Apache-2.0
// RaggedShard as a user meets it: what ranks hold, gradients, which ops stay on flat locals, which gather,
// which refuse; random values.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/optim/optimizer.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};
const Placement kRagged = RaggedShard{{0}, {2, 0, 1}};

at::Tensor ramp(std::vector<int64_t> shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).sub(7).reshape(shape);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class RaggedTest : public testing::Test {
 protected:
  MeshInWorld mesh_ = init_device_mesh({2, 3}, {"tp", "dp"});
  at::Tensor place(const at::Tensor& t, const Placement& a, const Placement& b) {
    return distribute_tensor(t, mesh_, {a, b});
  }
};

// Catches: locals in the shape of a box, a rank without blocks that holds some, columns that TP cut taken for
// rows.
TEST_F(RaggedTest, LocalsAreFlatSlicesOfWhatTheOtherPlacementsLeave) {
  const auto value = ramp({6, 4});
  const auto x = place(value, Shard{1}, kRagged);
  const auto right = value.narrow(1, 2, 2).reshape({12});
  const auto locals = to_local(x);
  EXPECT_TRUE(locals[3].equal(right.narrow(0, 0, 8)));
  EXPECT_EQ(locals[4].sizes(), at::IntArrayRef({0}));
  EXPECT_TRUE(locals[5].equal(right.narrow(0, 8, 4)));
  EXPECT_TRUE(full_tensor(x).equal(value));
  EXPECT_EQ(x.sizes(), value.sizes());
}

// Beside an uneven Shard each of its coordinates has units of its own. Catches: one list for all, a move or
// an op that loses the others' units, a gather where locals meet.
TEST_F(RaggedTest, UnitsMayDifferByCoordinateOfTheOthers) {
  const auto value = ramp({7, 4});  // 4 and 3 rows
  const Placement lists = RaggedShard{{0}, {2, 1, 1, 0, 1, 2}, 2};
  const auto x = place(value, Shard{0}, lists);
  EXPECT_EQ(to_string(placements(x)), "[S0,G0:2/1/1|0/1/2]");
  EXPECT_TRUE(to_local(x)[1].equal(value.narrow(0, 2, 1).reshape({4})));
  EXPECT_EQ(to_local(x)[3].numel(), 0);
  EXPECT_TRUE(to_local(x)[5].equal(value.narrow(0, 5, 2).reshape({8})));
  Timeline timeline;
  {
    const TimelineScope log(timeline);
    const auto y = x * 2 + x;
    EXPECT_EQ(placements(y), placements(x));
    EXPECT_TRUE(timeline.size() == 2) << "it moved";
    EXPECT_TRUE(full_tensor(y).equal(value * 3));
    EXPECT_TRUE(full_tensor(x.sum()).equal(value.sum()));
    EXPECT_EQ(to_string(placements(x.sum())), "[P,P]");
  }
  const Placement rows = RaggedShard{{0}, {3, 0, 4}}, elements = RaggedShard{{0, 1}, {1, 1, 2, 3, 0, 0}, 2};
  for (const auto& to : {Placements{kR, kR}, Placements{kR, rows}, Placements{Shard{1}, rows},
                         Placements{Shard{0}, elements}}) {
    const auto there = redistribute(x, to);
    EXPECT_TRUE(full_tensor(there).equal(value)) << to_string(to);
    EXPECT_TRUE(full_tensor(redistribute(there, {Shard{0}, lists})).equal(value));
  }
  const auto terms =
      from_local(std::vector<at::Tensor>(6, at::ones({7, 4})), mesh_, {kR, Partial{}}, {{7, 4}});
  EXPECT_TRUE(full_tensor(redistribute(terms, {Shard{0}, lists})).equal(at::full({7, 4}, 3)));
  const auto error = error_of([&] { place(value, Shard{0}, kRagged); });
  EXPECT_NE(error.find("list of units for each coordinate"), std::string::npos) << error;
  EXPECT_NE(error_of([&] {
              place(value, Shard{0}, RaggedShard{{0}, {4, 0, 0, 2, 0, 0}, 2});
            }).find("no error"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              place(value, Shard{0}, RaggedShard{{0}, {1, 1, 2, 1, 1, 0}, 2});
            }).find("each list of units"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              place(value, Shard{0}, RaggedShard{{0}, {1, 1, 2, 1, 1, 2, 1, 1, 2}, 3});
            }).find("3 lists"),
            std::string::npos);
}

// Catches: locals of another length accepted, replicas not compared, the global shape guessed from flat
// locals.
TEST_F(RaggedTest, FromLocalChecksFlatLocals) {
  const auto value = ramp({6, 4});
  auto locals = to_local(place(value, kR, kRagged));
  const Placements placements{kR, kRagged};
  EXPECT_TRUE(full_tensor(from_local(locals, mesh_, placements, {{6, 4}})).equal(value));
  EXPECT_NE(error_of([&] { from_local(locals, mesh_, placements); }).find("pass it"), std::string::npos);
  auto other = locals;
  other[3] = other[3] + 1;
  EXPECT_NE(error_of([&] {
              from_local(other, mesh_, placements, {{6, 4}});
            }).find("replicated"),
            std::string::npos);
  locals[0] = locals[0].reshape({4, 4});
  EXPECT_NE(error_of([&] {
              from_local(locals, mesh_, placements, {{6, 4}});
            }).find("needs f32[16]"),
            std::string::npos);
}

// Catches: a gradient that stays gathered, terms of a sum that are not reduced before they are cut.
TEST_F(RaggedTest, GradientsArriveRagged) {
  const auto value = ramp({6, 4}), weight = ramp({6, 4}) * 0.5;
  const auto x = parameter(place(value, kR, kRagged));
  const auto gathered = redistribute(x, {Partial{}, kR});
  (gathered * place(weight, kR, Shard{0})).sum().backward();
  EXPECT_EQ(placements(x.grad()), (Placements{kR, kRagged}));
  EXPECT_TRUE(full_tensor(x.grad()).equal(weight));

  auto plain = to_local(place(value, kR, kRagged));
  for (auto& local : plain) local = local.detach().requires_grad_();
  from_local(plain, mesh_, {kR, kRagged}, {{6, 4}}).mul(place(weight, kR, kR)).sum().backward();
  EXPECT_TRUE(plain[2].grad().equal(weight.reshape({24}).narrow(0, 16, 8)));

  const auto y = parameter(place(value, Shard{1}, kRagged));
  to_local(y)[0].sum().backward();
  EXPECT_EQ(full_tensor(y.grad()).sum().item<float>(), 8);
}

// What an op does to locals of one cut: counts redistributions. Catches: a gather where flat locals would do,
// a broadcast over a flat local.
TEST_F(RaggedTest, ElementwiseOpsStayOnFlatLocals) {
  const auto a = ramp({6, 4}), b = ramp({6, 4}).t().contiguous().t() + 3;
  auto x = place(a, Shard{1}, kRagged), y = place(b, Shard{1}, kRagged);
  const auto before = current_context()->counters.redistributions;
  auto z = at::where(x.gt(y), (x * y).relu() + 2.5, at::zeros_like(x)).clone(at::MemoryFormat::Contiguous);
  z.mul_(y).add_(place(at::tensor(0.5f), kR, kR));
  at::_foreach_add_({z, x}, {y, y});
  z.copy_(z.to(at::kDouble).detach());
  EXPECT_EQ(current_context()->counters.redistributions, before);
  const auto expected = at::where(a.gt(b), (a * b).relu() + 2.5, at::zeros_like(a)) * b + 0.5 + b;
  EXPECT_EQ(placements(z), placements(x));
  EXPECT_TRUE(full_tensor(z).equal(expected));
  EXPECT_TRUE(full_tensor(x).equal(a + b));
}

// A plain tensor is whole on every rank, whatever its shape. Catches: one of one element, of the DTensor's
// shape, taken for flat, which gives a local the dimensions of the global shape.
TEST_F(RaggedTest, APlainTensorOfOneElementIsNotFlat) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{1}, {1, 1}, {1, 1, 1}, {6, 4}, {6, 1, 4}}) {
    const auto value = ramp(shape);
    const auto x = place(value, kR, RaggedShard{{0}, {1, 0, 0}});
    for (const size_t ndim : {0, 1, 2, 3, 4}) {
      const auto plain = at::full(std::vector<int64_t>(ndim, 1), 3, at::kFloat);
      EXPECT_TRUE(full_tensor(x.div(plain)).equal(value.div(plain))) << x.sizes() << ndim;
      EXPECT_TRUE(full_tensor(plain.sub(x)).equal(plain.sub(value))) << x.sizes() << ndim;
    }
  }
}

// Catches: an op of rows or columns run on flat locals, an operand cut otherwise met as it is.
TEST_F(RaggedTest, OtherOpsRedistribute) {
  const auto a = ramp({6, 4}), row = ramp({4});
  const auto x = place(a, kR, kRagged);
  const auto y = x + place(a, Shard{0}, Shard{1});
  EXPECT_TRUE(full_tensor(y).equal(a + a));
  EXPECT_TRUE(full_tensor(x + place(a, kR, RaggedShard{{0}, {1, 1, 1}})).equal(a + a));
  EXPECT_TRUE(full_tensor(x + place(row, kR, kR)).equal(a + row));
  EXPECT_TRUE(full_tensor(x.sum(0)).equal(a.sum(0)));
  EXPECT_TRUE(full_tensor(at::mm(x, place(a.t(), kR, kR))).equal(at::mm(a, a.t())));
  const ExplicitRedistribution explicit_only;
  EXPECT_NE(error_of([&] { x.sum(0); }).find("redistribute([R,S1])"), std::string::npos)
      << error_of([&] { x.sum(0); });
}

// A reduction within rows leaves blocks where they are, whatever op and whatever cuts the rows. Catches: a
// gather, rows of another length, a dimension counted from the first of the rows that lie flattened, a rank
// without blocks.
TEST_F(RaggedTest, AReductionWithinRowsStays) {
  const auto value = ramp({6, 2, 4});
  const std::vector<std::function<at::Tensor(const at::Tensor&, int64_t)>> ops = {
      [](auto& t, int64_t d) { return t.sum(d); },
      [](auto& t, int64_t d) { return t.mean(d, true); },
      [](auto& t, int64_t d) { return t.amax(d); },
      [](auto& t, int64_t d) { return t.prod(d); },
      [](auto& t, int64_t d) { return t.argmin(d); },
      [](auto& t, int64_t d) { return t.ne(3).any(d); },
      [](auto& t, int64_t d) { return t.var(at::IntArrayRef{d}); },
      [](auto& t, int64_t d) { return at::norm(t, 2, at::IntArrayRef{d}); },
      [](auto& t, int64_t d) { return t.logsumexp(d); },
      [](auto& t, int64_t d) { return std::get<1>(t.max(d)); },
      [](auto& t, int64_t d) { return std::get<0>(t.max(d, true)); }};
  const Placement kRowsOfTwo = RaggedShard{{0, 1}, {5, 0, 7}};
  for (const auto& [a, b, dims] : std::vector<std::tuple<Placement, Placement, std::vector<int64_t>>>{
           {kR, kRagged, {1, 2, -1, -2}}, {Shard{1}, kRagged, {2, -1}}, {kR, kRowsOfTwo, {2, -1}}})
    for (const int64_t d : dims)
      for (size_t op = 0; op < ops.size(); ++op) {
        const auto y = ops[op](place(value, a, b), d);
        EXPECT_EQ(placements(y)[1], b) << op << " over " << d;
        EXPECT_TRUE(full_tensor(y).equal(ops[op](value, d))) << op << " over " << d;
      }
}

// Catches: a gather where a number has more dimensions than a flat local.
TEST_F(RaggedTest, NumbersOfAnyShapeMeetBlocks) {
  const auto value = ramp({6, 4}), one = at::full({1, 1}, 3.0);
  const auto x = place(value, kR, kRagged), y = place(one, kR, kR);
  for (const auto& [got, wanted] : {std::pair(x * y, value * one),
                                    {y - x, one - value},
                                    {at::where(x > y, x, y), at::where(value > one, value, one)}}) {
    EXPECT_EQ(placements(got)[1], kRagged);
    EXPECT_TRUE(full_tensor(got).equal(wanted));
  }
}

// Catches: a gather before a reduction of all elements, a rank without blocks that gives a number, a mean of
// means, a reduction of some dimensions taken for one of all.
TEST_F(RaggedTest, AReductionOfAllElementsPends) {
  const std::vector<int64_t> kBoth{0, 1};
  const auto value = ramp({6, 4});
  const auto x = place(value, Shard{1}, kRagged);
  const auto check = [&](const at::Tensor& result, const at::Tensor& expected, const char* placements_of) {
    EXPECT_EQ(to_string(placements(result)), placements_of);
    EXPECT_TRUE(full_tensor(result).equal(expected)) << full_tensor(result) << expected;
  };
  Timeline timeline;
  {
    const TimelineScope log(timeline);
    check(x.sum(), value.sum(), "[P,P]");
    check(x.sum(kBoth, true), value.sum(kBoth, true), "[P,P]");
    check(x.amax(), value.amax(), "[Pmax,Pmax]");
    check(x.max(), value.max(), "[Pmax,Pmax]");
    check(x.min(), value.min(), "[Pmin,Pmin]");
    check(x.amin({0, -1}, true), value.amin({0, -1}, true), "[Pmin,Pmin]");
    check(x.ne(100).all(), value.ne(100).all(), "[Pmin,Pmin]");
    check(x.eq(16).any(), value.eq(16).any(), "[Pmax,Pmax]");
    check(x.mean(), value.mean(), "[R,R]");
    check(x.mean(kBoth, true), value.mean(kBoth, true), "[R,R]");
  }
  for (const auto& entry : timeline)
    EXPECT_TRUE(entry.op != "lockstep::redistribute" || entry.inputs[0].spec->numel() == 1) << "gathers";
  const auto one = distribute_tensor(ramp({6}), mesh_, {kR, kRagged});
  EXPECT_EQ(to_string(placements(one.prod(0))), "[R,Pprod]");
  EXPECT_TRUE(full_tensor(one.prod(0, true)).equal(ramp({6}).prod(0, true)));
  // Of some dimensions: gathered.
  EXPECT_TRUE(full_tensor(x.sum(1)).equal(value.sum(1)));
  EXPECT_TRUE(full_tensor(x.sum(0)).equal(value.sum(0)));
}

// Where blocks would not be whole rows once another mesh dimension cuts too, the RaggedShard goes. Catches: a
// choice of rows that no Spec allows.
TEST_F(RaggedTest, ChoicesThatWouldCutABlockAreNotMade) {
  const auto a = ramp({6, 4});
  const auto ragged = place(a, kR, RaggedShard{{0}, {1, 1, 4}}), rows = place(a, Shard{0}, kR);
  EXPECT_TRUE(full_tensor(rows + ragged).equal(a + a));
  EXPECT_TRUE(full_tensor(ragged + rows).equal(a + a));
  const auto two = place(a, RaggedShard{{0}, {1, 2}}, kR);
  EXPECT_TRUE(full_tensor(two + ragged).equal(a + a));
}

// Catches: a view or an in-place op that gathers in silence, and writes to the copy.
TEST_F(RaggedTest, ViewsAndInPlaceOpsThatWouldMoveItRefuse) {
  auto x = place(ramp({6, 4}), kR, kRagged);
  EXPECT_NE(error_of([&] { x.t(); }).find("call redistribute on it first"), std::string::npos);
  EXPECT_NE(error_of([&] { x.select(1, 0); }).find("call redistribute on it first"), std::string::npos);
  EXPECT_NE(error_of([&] { x.add_(place(ramp({4}), kR, kR)); }).find("call redistribute on it first"),
            std::string::npos);
  x.detach().add_(1);
  EXPECT_TRUE(full_tensor(x).equal(ramp({6, 4}) + 1));
}

// Catches: a flat local that is viewed with another shape, a view that is a copy, and blocks that are cut
// elsewhere.
TEST_F(RaggedTest, ViewsThatKeepTheOrderOfElementsStay) {
  const auto value = ramp({6, 4});
  for (const Placement& beside : {kR, Placement(Shard{1})}) {
    const std::vector<std::function<at::Tensor(const at::Tensor&)>> views = {
        [](auto& t) { return t.unsqueeze(0); },      [](auto& t) { return t.unsqueeze(2); },
        [](auto& t) { return t.unsqueeze(1); },      [](auto& t) { return t.unsqueeze(0).squeeze(0); },
        [](auto& t) { return t.view({6, 1, 4}); },   [](auto& t) { return t.view({3, 2, 4}); },
        [](auto& t) { return t.expand({6, 4}); },    [](auto& t) { return t.slice(0, 0, 6); },
        [](auto& t) { return t.slice(1, 0, 4, 1); }, [](auto& t) { return t.detach(); }};
    for (const auto& view : views) {
      const auto x = place(value, beside, kRagged);
      const auto y = view(x);
      EXPECT_TRUE(is_ragged(placements(y)[1]));
      EXPECT_TRUE(full_tensor(y).equal(view(value)));
      EXPECT_EQ(to_local(y)[0].data_ptr(), to_local(x)[0].data_ptr());
      y.detach().add_(1);
      EXPECT_TRUE(full_tensor(x).equal(value + 1));
    }
  }
  EXPECT_EQ(placements(place(value, kR, kRagged).view({24}))[1], Placement(kRagged));
  EXPECT_EQ(placements(place(value, kR, kRagged).view({2, 3, 4}))[1],
            Placement(RaggedShard{{0, 1}, {2, 0, 1}}));
}

// Law: every run of indices of the first dimension, beside Shards, lies where it lay, in the same memory.
// Catches: one that another rank has, a part that begins at the first of a rank's elements though the slice
// begins later, and a copy.
TEST_F(RaggedTest, SlicesLieWhereTheyLay) {
  const auto value = ramp({12, 2, 4});
  for (const Placement& beside : {kR, Placement(Shard{1}), Placement(Shard{2})})
    for (const auto& ragged : {RaggedShard{{0}, {1, 2, 3}}, RaggedShard{{0}, {3, 0, 1}},
                               RaggedShard{{0, 1}, {2, 1, 3}}, RaggedShard{{0}, {0, 12, 0}}})
      for (int64_t start = 0; start <= 12; ++start)
        for (int64_t end = start; end <= 12; ++end) {
          const auto x = place(value, beside, ragged);
          if (start == end) {
            EXPECT_NE(error_of([&] { x.slice(0, start, end); }).find("call redistribute on it first"),
                      std::string::npos)
                << to_string(Placement(ragged)) << " " << start << ":" << end;
            continue;
          }
          const auto before = current_context()->counters.redistributions;
          const auto y = x.slice(0, start, end);
          EXPECT_EQ(current_context()->counters.redistributions, before);
          y.detach().add_(100);
          auto expected = value.clone();
          expected.slice(0, start, end).add_(100);
          EXPECT_TRUE(full_tensor(x).equal(expected)) << to_string(Placement(ragged)) << " " << start;
          EXPECT_TRUE(full_tensor(y).equal(expected.slice(0, start, end)));
        }
  const auto parts = place(value, kR, RaggedShard{{0}, {1, 2, 3}}).split_with_sizes({2, 8, 2});
  EXPECT_EQ(placements(parts[1])[1], Placement(RaggedShard{{0}, {0, 1, 1}}));
  for (size_t j = 0; j < parts.size(); ++j)
    EXPECT_TRUE(full_tensor(parts[j]).equal(value.split_with_sizes({2, 8, 2})[j])) << j;
  const auto rows = place(value, kR, RaggedShard{{0}, {4, 4, 4}});
  EXPECT_TRUE(full_tensor(rows.slice(0, 5, 7, 2)).equal(value.narrow(0, 5, 1)));
  EXPECT_NE(error_of([&] { rows.slice(0, 2, 8, 2); }).find("call redistribute on it first"),
            std::string::npos);
}

// Every random op and factory, beside a Shard and a Partial. Catches: a flat local that draws its own
// numbers, an offset that depends on a rank's share.
TEST_F(RaggedTest, RandomValuesAreTheSingleDevices) {
  generator().device = {1, 256};
  const auto drawn = [&](const Placements& placements) {
    manual_seed(5);
    std::vector<at::Tensor> all{rand({6, 50, 4}, mesh_, placements), randn({6, 4}, mesh_, placements)};
    const auto x = ones({6, 50, 4}, mesh_, placements);
    all.push_back(at::dropout(x, 0.3, true));
    all.push_back(at::randint_like(x, 100));
    const auto y = at::empty_like(x);
    all.push_back(y.bernoulli_(0.3).clone());
    all.push_back(y.normal_(2, 3));
    for (auto& t : all) t = full_tensor(t);
    EXPECT_EQ(generator().state.offset % 4, 0u);
    all.push_back(at::scalar_tensor(static_cast<double>(generator().state.offset)));
    return all;
  };
  const auto expected = drawn({kR, kR});
  for (const Placements& placements : {Placements{kR, kRagged},
                                       {Shard{1}, kRagged},
                                       {Partial{ReduceOp::kMax}, kRagged},
                                       {RaggedShard{{0, 1}, {1, 3}}, kR},
                                       {Shard{0}, RaggedShard{{0}, {1, 1, 1}}}}) {
    const auto got = drawn(placements);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i].equal(expected[i])) << i << " " << to_string(placements);
  }
  generator() = {};
}

// Without dimensions there is one block. Catches: a tensor of one element that no rank holds, or a result
// whose dtype is that of tensors with dimensions.
TEST_F(RaggedTest, OneRankMayHoldAll) {
  const auto value = ramp({3, 5});
  const auto x = place(value, Shard{1}, RaggedShard{{}, {0, 7, 0}});
  EXPECT_EQ(to_local(x)[4].sizes(), at::IntArrayRef({6}));
  EXPECT_EQ(to_local(x)[3].numel(), 0);
  EXPECT_TRUE(full_tensor(x * 2).equal(value * 2));
  const auto one = place(at::scalar_tensor(3.0, at::kFloat), kR, RaggedShard{{}, {0, 1, 0}});
  EXPECT_EQ(one.dim(), 0);
  EXPECT_EQ(to_local(one)[1].sizes(), at::IntArrayRef({1}));
  EXPECT_EQ(one.item<float>(), 3);
  EXPECT_EQ((one * place(at::scalar_tensor(0.5, at::kDouble), kR, kR)).scalar_type(), at::kDouble);
  EXPECT_EQ((one * at::scalar_tensor(0.5, at::kDouble)).item<double>(), 1.5);
  EXPECT_EQ((place(at::ones({1}), kR, kR) * one).item<float>(), 3);
  // The RaggedShard must go, but not to a pending sum beside a pending minimum.
  const auto least = place(at::scalar_tensor(3.0), Partial{ReduceOp::kMin}, RaggedShard{{}, {1, 0, 0}});
  EXPECT_EQ(full_tensor(at::zeros_like(least)).item<float>(), 0);
}

// Optimizer state and steps stay in the parameter's cut. Catches: a state that is gathered, a step over
// another rank's part.
TEST_F(RaggedTest, AdamWStepsOnFlatLocals) {
  const auto value = ramp({6, 4}), grad = ramp({6, 4}) * 0.25;
  auto x = parameter(place(value, Shard{1}, kRagged));
  x.mutable_grad() = place(grad, Shard{1}, kRagged);
  auto plain = value.clone().requires_grad_();
  plain.mutable_grad() = grad;
  const auto before = current_context()->counters.redistributions;
  optim::AdamW ours({x}, {}), reference({plain}, {});
  for (int step = 0; step < 3; ++step) {
    ours.step();
    reference.step();
  }
  EXPECT_EQ(current_context()->counters.redistributions, before);
  EXPECT_TRUE(full_tensor(x).detach().equal(plain.detach()));
}

}  // namespace
}  // namespace lockstep
