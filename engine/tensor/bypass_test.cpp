// SPDX-License-Identifier: Apache-2.0
// Bypasses: what is not decided comes out as if it were, in every bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/rules/table.h"
#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/thread_world.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};
const Placement kP = Partial{};

// How many ops are decided in f, anew or not.
template <class F>
int64_t decisions(F&& f) {
  const auto& counted = current_context()->counters;
  const auto before = counted.cache_hits + counted.cache_misses;
  f();
  return counted.cache_hits + counted.cache_misses - before;
}

template <class F>
auto by_rule(F&& f) {
  const BypassScope none({});
  return f();
}

bool same_locals(const at::Tensor& a, const at::Tensor& b) {
  const auto &left = local_tensors(a), &right = local_tensors(b);
  for (size_t i = 0; i < left.size(); ++i)
    if (!same_bits(left[i], right[i]) || left[i].strides() != right[i].strides()) return false;
  return spec(a) == spec(b);
}

std::vector<Placements> all_placements(int64_t ndim) {
  std::vector<Placements> all;
  for (const auto& a : placement_choices(ndim))
    for (const auto& b : placement_choices(ndim)) all.push_back({a, b});
  return all;
}

class BypassTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({2, 3});
  at::Tensor place(const at::Tensor& t, const Placements& p) const { return distribute_tensor(t, mesh_, p); }

  // Zeros of both signs, NaNs of several payloads, infinities and denormals, other ones on each rank.
  at::Tensor specials(std::vector<int64_t> shape, const Placements& p, c10::ScalarType dtype,
                      int64_t seed) const {
    const auto quiet = at::tensor({0x7fc12345, static_cast<int>(0xffc00001)}, at::kInt).view(at::kFloat);
    const auto others = at::tensor({-0.0f, 0.0f, INFINITY, -INFINITY, 1e-40f, -0.0f, 1.5f, -3.0f, 0.1f});
    const auto of = at::isFloatingType(dtype) ? at::cat({others, quiet}) : others.clamp(-9, 9);
    auto t = place(at::zeros(shape, dtype), p);
    const auto& locals = local_tensors(t);
    for (size_t r = 0; r < locals.size(); ++r) {
      const auto n = locals[r].numel();
      locals[r].copy_(of.roll(static_cast<int64_t>(r) + seed)
                          .repeat({n / of.numel() + 1})
                          .slice(0, 0, n)
                          .view(locals[r].sizes())
                          .to(dtype));
    }
    return t;
  }
};

// Catches: an answer of one rank's part, of shards that are empty or longer than others, of terms; one that
// gathers though both are cut alike.
TEST_F(BypassTest, EqualIsThatOfTheWhole) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{7, 5}, {1, 4}, {0, 3}}) {
    const auto value = ramp(shape);
    for (const auto& p : all_placements(2)) {
      const auto x = place(value, p);
      const bool alike = !spec(x).has_partial() && !spec(x).all_replicate();
      const auto asks = [&](const at::Tensor& other) {
        const bool expected = at::equal(value, other);
        const auto y = place(other, p), elsewhere = place(other, {Shard{0}, kR});
        EXPECT_EQ(decisions([&] { EXPECT_EQ(at::equal(x, y), expected) << spec(x); }), alike ? 0 : 1);
        EXPECT_EQ(at::equal(x, elsewhere), expected) << spec(x);
      };
      asks(value.clone());
      for (int64_t k = 0; k < value.numel(); k += 3) {
        auto other = value.clone();
        other.view(-1)[k] += 1;
        asks(other);
        other.view(-1)[k] = NAN;
        asks(other);
      }
      asks(at::where(value == 0, -0.0, value));
      EXPECT_FALSE(at::equal(x, place(ramp({shape[0] + 1, shape[1]}), p)));
    }
  }
}

// Catches: terms that are compared one by one.
TEST_F(BypassTest, EqualOfTermsIsThatOfTheirSum) {
  const auto mesh = init_device_mesh({2});
  const auto pending = [&](float a, float b) {
    return from_local({at::full({2}, a), at::full({2}, b)}, mesh, {kP});
  };
  EXPECT_TRUE(at::equal(pending(1, 2), pending(2, 1)));
  EXPECT_FALSE(at::equal(pending(INFINITY, -INFINITY), pending(INFINITY, -INFINITY)));
}

// Catches: ranks that take different branches, since each has asked for its own part, or for nothing.
TEST_F(BypassTest, EqualIsTheSameOnEveryRank) {
  run_on_threads(3, std::chrono::minutes(1), [](const WorldPtr& world) {
    const auto mesh = init_device_mesh({3}, {}, world);
    for (const int64_t rows : {7, 2}) {
      const auto x = distribute_tensor(ramp({rows, 2}), mesh, {Shard{0}});
      for (int64_t k = 0; k < rows; ++k) {
        auto other = ramp({rows, 2});
        other[k] += 1;
        EXPECT_FALSE(at::equal(x, distribute_tensor(other, mesh, {Shard{0}}))) << rows << k;
      }
      EXPECT_TRUE(at::equal(x, distribute_tensor(ramp({rows, 2}), mesh, {Shard{0}}))) << rows;
    }
  });
}

// Catches: a whole tensor that is added on every rank, or on none; terms of -0.0 to which +0.0 is added; a
// NaN that is made another, or goes with the ranks that do not add; a factor that changes signs.
TEST_F(BypassTest, AWholeTensorIsOneTermOfAPendingOne) {
  const Placement s0 = Shard{0};
  const std::pair<Placements, Placements> pairs[] = {
      {{kP, s0}, {kR, s0}}, {{kP, kR}, {kR, kR}},
      {{kP, kP}, {kR, kR}}, {{kP, kP}, {kP, kR}},
      {{s0, kP}, {s0, kR}}, {{Partial{ReduceOp::kAvg}, kP}, {Partial{ReduceOp::kAvg}, kR}}};
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong})
    for (const auto& [pending, whole] : pairs) {
      if (dtype == at::kLong && is_partial(pending[0], ReduceOp::kAvg)) continue;
      const auto p = specials({7, 5}, pending, dtype, 0), w = specials({7, 5}, whole, dtype, 4);
      for (const int64_t alpha : {1, 2, -1, 0}) {
        for (const auto& [a, b] : {std::pair(p, w), std::pair(w, p)}) {
          at::Tensor sum;
          EXPECT_EQ(decisions([&, &x = a, &y = b] { sum = at::add(x, y, alpha); }) == 0, alpha > 0);
          const auto expected = by_rule([&x = a, &y = b, alpha] { return at::add(x, y, alpha); });
          EXPECT_TRUE(same_locals(sum, expected)) << spec(a) << spec(b) << alpha;
        }
      }
    }
  const auto zeros = at::full({4}, -0.0);
  EXPECT_TRUE(same_bits(full_tensor(place(zeros, {kP, kR}) + place(zeros, {kR, kR})), zeros));
}

// Catches: a bypass that acts where terms are broadcast or converted, where nothing has to pend, or where
// two tensors pend along different dimensions of the mesh.
TEST_F(BypassTest, OtherSumsGoByTheirRule) {
  const auto p = place(ramp({4, 6}), {kP, kR}), w = place(ramp({4, 6}), {kR, kR});
  const std::pair<at::Tensor, at::Tensor> others[] = {
      {p, place(ramp({6}), {kR, kR})},
      {p, place(ramp({4, 6}).to(at::kDouble), {kR, kR})},
      {p, place(ramp({6, 4}).t(), {kR, kR})},
      {p, place(ramp({4, 6}), {kR, kP})},
      {p, place(ramp({4, 6}), {Shard{0}, kR})},
      {place(ramp({4, 6}), {Partial{ReduceOp::kMax}, kR}), w},
      {place(ramp({0, 6}), {kP, kR}), place(ramp({0, 6}), {kR, kR})},
      {p, p},
      {w, w}};
  for (const auto& [a, b] : others) {
    const auto twice = [&x = a, &y = b] { EXPECT_TRUE(same_locals(x + y, by_rule([&] { return x + y; }))); };
    EXPECT_GT(decisions(twice), 1) << spec(a) << spec(b);
  }
  const auto line = init_device_mesh({1});
  const auto alone = distribute_tensor(ramp({4}), line, {kP}), one = distribute_tensor(ramp({4}), line, {kR});
  EXPECT_TRUE(same_locals(alone + one, by_rule([&] { return alone + one; })));
}

// Catches: an out that is taken for one that lies as its operands; one whose memory is replaced; a product of
// terms, or a difference, that is called their sum; an operand that is overwritten before it is read.
TEST_F(BypassTest, AnOutIsWrittenWhereItLiesAsItsOperands) {
  using Write = void (*)(at::Tensor & out, const at::Tensor& x, const at::Tensor& y);
  const Write writes[] = {[](auto& out, auto& x, auto& y) { at::add_out(out, x, y); },
                          [](auto& out, auto& x, auto& y) { at::mul_out(out, x, y); },
                          [](auto& out, auto& x, auto& y) { at::lt_out(out, x, y); },
                          [](auto& out, auto& x, auto&) { at::exp_out(out, x); },
                          [](auto& out, auto& x, auto& y) { at::add_out(out, x, y, -1); }};
  const Placements places[] = {
      {Shard{0}, kR}, {Shard{1}, Shard{0}}, {InterleavedShard{0, 2}, kR}, {kR, kR}, {kP, Shard{0}}};
  for (const auto& in : places)
    for (const auto& where : places)
      for (size_t k = 0; k < std::size(writes); ++k) {
        const auto x = specials({8, 6}, in, at::kFloat, 0), y = specials({8, 6}, in, at::kFloat, 5);
        auto out = place(at::zeros({8, 6}), where), expected = place(at::zeros({8, 6}), where);
        const auto seen = out.t();
        const bool bypassed = in == where && (!spec(x).has_partial() || k == 0);
        std::string refused;
        const auto run = [&] { refused = error_of([&] { writes[k](out, x, y); }); };
        EXPECT_EQ(decisions(run) == 0, bypassed) << spec(x) << spec(out) << k;
        EXPECT_EQ(refused, by_rule([&] { return error_of([&] { writes[k](expected, x, y); }); }));
        EXPECT_TRUE(same_locals(out, expected) && same_locals(seen, expected.t()))
            << spec(x) << spec(out) << k;
      }
  const auto memory = place(ramp({8}), {kR, kR}), again = place(ramp({8}), {kR, kR});
  auto later = memory.slice(0, 2, 8), later_again = again.slice(0, 2, 8);
  at::add_out(later, memory.slice(0, 0, 6), memory.slice(0, 1, 7));
  by_rule([&] { at::add_out(later_again, again.slice(0, 0, 6), again.slice(0, 1, 7)); });
  EXPECT_TRUE(same_locals(memory, again));
  auto short_one = place(ramp({4}), {Shard{0}, kR});
  const auto x = place(ramp({8}), {Shard{0}, kR});
  EXPECT_TRUE(says(error_of([&] { at::exp_out(short_one, x); }), {"aten::exp.out", "out has shape"}));
}

// Catches: a bypass of what is recorded, of which the judge would see another op; one that stands in for
// rows that somebody else gave, or where nothing may move.
TEST_F(BypassTest, WhatIsRecordedAndWhatUsersRuleGoesByTheRule) {
  const auto p = place(ramp({4, 6}), {kP, kR}), w = place(ramp({4, 6}), {kR, kR});
  const auto adds = [&] { return p + w; };
  EXPECT_EQ(decisions(adds), 0);
  {
    Timeline timeline;
    const TimelineScope scope(timeline);
    EXPECT_EQ(decisions(adds), 1);
    EXPECT_EQ(timeline.back().op, "aten::add.Tensor");
  }
  {
    const RuleScope rule("aten::add", [](const OpCall&) { return Rows{}; });
    EXPECT_EQ(placements(adds()), (Placements{kR, kR}));
  }
  {
    const ExplicitRedistribution forbid;
    EXPECT_TRUE(says(error_of(adds), {"aten::add", "ExplicitRedistribution"}));
  }
  EXPECT_EQ(decisions(adds), 0);
}

SpecPtr as_first(const BypassCall& call) {
  return call.tensors[0];
}
bool always(const BypassCall&) {
  return true;
}

// Catches: a later bypass that is tried before an earlier one; one for other overloads, or another kind of
// op; one that outlives its registration, or its scope.
TEST_F(BypassTest, TheFirstThatIsForTheCallIsTaken) {
  const auto x = place(ramp({4, 6}), {Shard{0}, kR});
  std::string asked;
  const auto add = [&](Bypass::Ops op, Variant kind, std::string name, bool is_for) {
    register_bypass({std::move(op), kind,
                     [&asked, name, is_for](const BypassCall&) { return asked += name, is_for; },
                     [&asked, name](const BypassCall& call) { return asked += name, call.tensors[0]; }});
  };
  const auto asks = [&](auto&& f) { return asked.clear(), f(), asked; };
  add("aten::relu", Variant::kInPlace, "i", true);
  add("aten::relu", Variant::kFunctional, "a", false);
  add(at::Tag::pointwise, Variant::kFunctional, "b", true);
  add("aten::relu", Variant::kFunctional, "c", true);
  add("aten::add.Scalar", Variant::kFunctional, "s", true);
  at::Tensor y;
  EXPECT_EQ(asks([&] { y = at::relu(x); }), "abb");
  EXPECT_TRUE(full_tensor(y).equal(at::relu(ramp({4, 6}))));
  EXPECT_EQ(asks([&] { at::exp(x); }), "bb");
  EXPECT_EQ(asks([&] { at::sum(x); }), "");
  unregister_bypasses(at::Tag::pointwise);
  EXPECT_EQ(asks([&] { at::relu(x); }), "acc");
  EXPECT_EQ(asks([&] { x + x; }), "");
  EXPECT_EQ(asks([&] { at::add(x, 1); }), "ss");
  EXPECT_EQ(asks([&] { EXPECT_TRUE(x.clone().relu_().equal(at::relu(x))); }), "iiacc");
  EXPECT_EQ(by_rule([&] { return asks([&] { at::relu(x); }); }), "");
  unregister_bypasses("aten::relu");
  unregister_bypasses("aten::add.Scalar");
  EXPECT_EQ(asks([&] { at::relu(x), at::add(x, 1); }), "");
}

// Catches: a result that is not what its Spec says, which nobody notices until much later.
TEST_F(BypassTest, AWrongOneIsNamed) {
  const auto x = place(ramp({4, 6}), {Shard{0}, kR});
  auto out = place(ramp({4, 6}), {kR, kR});
  const auto whole = [](const BypassCall& call) {
    const Placements everywhere(2, Replicate{});
    return std::make_shared<const Spec>(call.tensors[0]->with_placements(everywhere));
  };
  const auto wrong = [&](Bypass bypass, auto&& f) {
    const BypassScope scope({std::move(bypass)});
    return error_of(f);
  };
  EXPECT_TRUE(says(wrong({"aten::relu", Variant::kFunctional, always, whole}, [&] { at::relu(x); }),
                   {"aten::relu", "rank", "its bypass is wrong"}));
  EXPECT_TRUE(says(wrong({"aten::exp", Variant::kOut, always, as_first}, [&] { at::exp_out(out, x); }),
                   {"aten::exp.out", "is written as", "its bypass is wrong"}));
  EXPECT_TRUE(says(wrong({"aten::relu", Variant::kFunctional, always, [](auto&) { return SpecPtr(); }},
                         [&] { at::relu(x); }),
                   {"aten::relu", "its bypass is wrong"}));
  for (const auto* op : {"aten::view", "aten::uniform_", "aten::nothing"})
    EXPECT_TRUE(says(error_of([&] {
                       register_bypass({op, Variant::kFunctional, always, as_first});
                     }),
                     {"[register_bypass]", op, "register_sharding"}));
  EXPECT_TRUE(says(error_of([&] {
                     register_bypass({"aten::relu", Variant::kList, always, as_first});
                   }),
                   {"[register_bypass]", "kList"}));
}

}  // namespace
}  // namespace lockstep
