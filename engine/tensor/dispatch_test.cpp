// SPDX-License-Identifier: Apache-2.0
// What a user of DTensors may rely on: values, aliasing, refusals, and errors that say what to do.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <future>
#include <set>
#include <thread>

#include "engine/ops/decide.h"
#include "engine/ops/rules/table.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"
#include "engine/world/worlds.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};

class DispatchTest : public testing::Test {
 protected:
  MeshInWorld mesh_ = init_device_mesh({2, 3}, {"dp", "tp"});
  at::Tensor place(const at::Tensor& t, Placement a, Placement b) {
    return distribute_tensor(t, mesh_, {a, b});
  }
};

// Catches: a view that is a copy, an in-place op that writes to a copy.
TEST_F(DispatchTest, ViewsAliasAndInPlaceOpsWriteThrough) {
  const auto value = ramp({4, 6});
  auto x = place(value, Shard{0}, Shard{1});
  auto v = x.t();
  v.add_(1);
  EXPECT_TRUE(full_tensor(x).equal(value + 1));
  EXPECT_TRUE(x.is_same(x.mul_(2)));
  EXPECT_TRUE(full_tensor(v).equal(((value + 1) * 2).t()));
  EXPECT_EQ(x._version(), v._version());
}

// Catches: a view in other strides, or at another place, that is taken for the one that changes nothing; a
// decision that is reused at another place; a place counted from where a rank's memory begins.
TEST_F(DispatchTest, StridedViewsSeeTheMemoryThatTheyName) {
  struct View {
    int64_t dim, start, length;
    std::vector<int64_t> shape, stride;
    std::optional<int64_t> offset;
    at::Tensor of(const at::Tensor& t) const {
      return t.narrow(dim, start, length).as_strided(shape, stride, offset);
    }
  };
  const View views[] = {{0, 0, 4, {4, 6}, {6, 1}, {}}, {0, 0, 4, {6, 4}, {1, 6}, {}},
                        {1, 1, 4, {4, 4}, {1, 6}, {}}, {0, 0, 2, {2, 6}, {6, 1}, 0},
                        {0, 2, 2, {2, 6}, {6, 1}, 0},  {0, 2, 2, {2, 6}, {6, 1}, {}},
                        {0, 0, 2, {2, 6}, {6, 1}, 12}};
  const auto value = ramp({4, 6}), later = at::cat({at::zeros({3}), value.flatten()}).slice(0, 3);
  const PerRank<at::Tensor> parts(6, later.view({4, 6}));
  for (const auto& x : {place(value, kR, kR), from_local(parts, mesh_, {kR, kR})})
    for (const auto& view : views) EXPECT_TRUE(full_tensor(view.of(x)).equal(view.of(value)));
  EXPECT_TRUE(full_tensor(views[0].of(place(value, Shard{0}, Shard{1}))).equal(value));
  const View turned{0, 0, 6, {6, 6}, {1, 6}, {}};
  EXPECT_TRUE(says(error_of([&] {
                     turned.of(place(ramp({6, 6}), kR, Shard{1}));
                   }),
                   {"aten::as_strided", "redistribute"}));
}

// Catches: silent redistribution of what is aliased or written to.
TEST_F(DispatchTest, AliasingOpsRefuseToMove) {
  auto x = place(ramp({4, 6}), kR, Shard{1});
  EXPECT_TRUE(says(error_of([&] { x.view({24}); }) + error_of([&] { x.select(1, 0); }),
                   {"aten::select", "[R,S1]", "redistribute"}));
  auto p = place(ramp({4, 6}), Partial{}, kR);
  EXPECT_TRUE(says(error_of([&] { p.relu_(); }), {"aten::relu_", "[P,R]", "redistribute"}));
}

// "op, reason, remedy" of the Refused that f throws; it names the Specs, and its text ends with the remedy.
template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const Refused& r) {
    const std::string text = r.what();
    EXPECT_TRUE(text.starts_with("[" + r.op + "] ") && text.ends_with(r.remedy) && !r.remedy.empty()) << text;
    EXPECT_TRUE(r.specs.empty() || r.specs.find('[') != std::string::npos) << r.specs;
    return r.op + ", " + name(r.why);
  }
  return "";
}

// Catches: a documented refusal that is thrown as any error, or under the reason of another; a reason that
// nothing meets.
TEST_F(DispatchTest, EveryRefusalHasItsReason) {
  const auto x = place(ramp({4, 6}), kR, Shard{1}), rows = place(ramp({4, 6}), Shard{0}, kR);
  auto p = place(ramp({4, 6}), Partial{}, kR), drawn = place(ramp({4, 6}), kR, kR),
       out = place(ramp({2}), kR, kR);
  const auto elsewhere = distribute_tensor(ramp({4, 6}), init_device_mesh({2}), {kR});
  const auto make = [&](Placement a, Placement b, at::ScalarType dtype) {
    return Spec(mesh_.mesh, {a, b}, {4}, dtype);
  };
  const std::pair<std::string, std::function<void()>> table[] = {
      {"aten::view, view",
       [&] {
         place(ramp({1, 4}), Shard{0}, kR).view({4});
       }},
      {"aten::select.int, view", [&] { x.select(1, 0); }},
      {"aten::relu_, in place", [&] { p.relu_(); }},
      {"aten::_foreach_add_.List, stale read",
       [&] {
         auto a = place(ramp({4, 6}), Shard{0}, kR), b = place(ramp({4, 6}), kR, Shard{1});
         at::_foreach_add_({a, b}, {b, a});
       }},
      {"aten::add.Tensor, plain tensor",
       [&] {
         x + ramp({4, 6});
       }},
      {"aten::add.Tensor, two meshes", [&] { x + elsewhere; }},
      {"aten::kthvalue, no rule", [&] { at::kthvalue(x, 1); }},
      {"aten::poisson, no stream", [&] { at::poisson(rows); }},
      {"aten::uniform_, generator", [&] { drawn.uniform_(0, 1, at::detail::createCPUGenerator()); }},
      {"aten::add_.Scalar, in flight",
       [&] {
         const auto late = place(ramp({4, 6}), Shard{0}, kR);
         const auto arriving = redistribute(late, {kR, kR}, {}, true);
         late.add_(1);
       }},
      {"aten::neg.out, out", [&] { at::neg_out(out, rows); }},
      {"spec, no reduction", [&] { make(Partial{ReduceOp::kAvg}, kR, at::kLong); }},
      {"spec, mixed partial", [&] { make(Partial{ReduceOp::kSum}, Partial{ReduceOp::kMax}, at::kFloat); }},
  };
  std::set<std::string> met{"explicit redistribution"};
  for (const auto& [expected, call] : table) {
    EXPECT_EQ(refusal_of(call), expected);
    met.insert(expected.substr(expected.find(", ") + 2));
  }
  const ExplicitRedistribution forbid;
  EXPECT_EQ(refusal_of([&] { x + rows; }), "aten::add.Tensor, explicit redistribution");
  EXPECT_EQ(met, std::set<std::string>(std::begin(kRefusals), std::end(kRefusals)));
}

// Catches: a plain tensor taken for a replicated one.
TEST_F(DispatchTest, PlainTensorsBesideDTensorsAreErrors) {
  auto x = place(ramp({4, 6}), Shard{0}, kR);
  EXPECT_TRUE(says(error_of([&] { x + ramp({4, 6}); }), {"aten::add", "plain", "distribute_tensor"}));
  EXPECT_TRUE(full_tensor(x + at::scalar_tensor(1.0)).equal(ramp({4, 6}) + 1));
  EXPECT_TRUE(says(error_of([&] { x.set_data(ramp({4, 6})); }), {"set_data"}));
}

// Catches: a silent replicate for an op without a rule.
TEST_F(DispatchTest, OpsWithoutARuleSayHowToAddOne) {
  auto x = place(ramp({4, 6}), Shard{0}, kR);
  EXPECT_TRUE(says(error_of([&] { at::kthvalue(x, 1); }), {"aten::kthvalue", "[S0,R]", "register_sharding"}));
  // Not the rule of view(size), which shares its name.
  EXPECT_TRUE(says(error_of([&] { x.view(at::kInt); }), {"aten::view.dtype", "[S0,R]", "register_sharding"}));
  register_sharding("aten::kthvalue", [](const OpCall&) { return Rows{}; });
  EXPECT_TRUE(full_tensor(std::get<0>(at::kthvalue(x, 1))).equal(std::get<0>(at::kthvalue(ramp({4, 6}), 1))));
  unregister_sharding("aten::kthvalue");
}

// Catches: a decision of before that outlives its rule, in this thread or in another.
TEST_F(DispatchTest, ARegisteredRuleHoldsFromTheNextCall) {
  const auto relu = [x = place(ramp({4, 6}), Shard{0}, kR)] {
    return to_string(spec(at::relu(x)).placements());
  };
  std::promise<void> registered, decided;
  std::string before, after;
  std::thread other([&] {
    before = relu();
    decided.set_value();
    registered.get_future().wait();
    after = relu();
  });
  decided.get_future().wait();
  EXPECT_EQ(relu(), "[S0,R]");
  register_sharding("aten::relu", [](const OpCall&) { return Rows{}; });
  registered.set_value();
  other.join();
  EXPECT_EQ(before, "[S0,R]");
  EXPECT_EQ(after, "[R,R]");
  EXPECT_EQ(relu(), "[R,R]");
  unregister_sharding("aten::relu");
  EXPECT_EQ(relu(), "[S0,R]");
}

// Catches: a user's row that is read beyond its end, or beyond the dimensions of a tensor.
TEST_F(DispatchTest, RowsThatDoNotFitAreRefused) {
  const auto x = place(ramp({4, 6}), Shard{0}, kR);
  const Row wrong[] = {{{}, {kR}, {}},         {{kR}, {}, {}},         {{kR}, {kR, kR}, {}},
                       {{Shard{2}}, {kR}, {}}, {{kR}, {Shard{5}}, {}}, {{kR, kR}, {kR}, {}},
                       {{kR}, {kR}, {{3, 0}}}, {{kR}, {kR}, {{0, 2}}}};
  for (const auto& row : wrong) {
    register_sharding("aten::relu", [row](const OpCall&) { return Rows{row}; });
    EXPECT_TRUE(says(error_of([&] { at::relu(x); }),
                     {"aten::relu", "its rule has the row", "1 tensors and 1 results"}));
    unregister_sharding("aten::relu");
  }
  EXPECT_EQ(to_string(spec(at::relu(x)).placements()), "[S0,R]");
}

// Catches: a collective that nobody asked for where they are forbidden.
TEST_F(DispatchTest, ExplicitRedistributionNamesWhatIsMissing) {
  auto x = place(ramp({4, 6}), Shard{0}, kR), y = place(ramp({4, 6}), Shard{1}, kR);
  EXPECT_TRUE(full_tensor(x + y).equal(ramp({4, 6}) * 2));
  ExplicitRedistribution forbid;
  EXPECT_TRUE(says(error_of([&] { x + y; }), {"aten::add", "redistribute(["}));
  EXPECT_TRUE(full_tensor(x + x).defined());
  // Catches: a mean, or a norm, that moves by itself all the same.
  const auto before = current_context()->counters.redistributions;
  EXPECT_TRUE(says(error_of([&] { at::norm(x, 2, {0}); }), {"aten::norm", "redistribute(["}));
  EXPECT_TRUE(spec(x.mean(0)).has_partial());
  EXPECT_EQ(current_context()->counters.redistributions, before);
}

// Catches: a tensor that has another's data and lies as before; a leaf that is none any more when it is cut.
TEST_F(DispatchTest, DataAndHistoryAreKept) {
  auto x = place(ramp({4, 6}), Shard{0}, kR);
  const auto y = place(ramp({4, 6}) * 2, kR, Shard{1});
  x.set_data(y);
  EXPECT_EQ(spec(x), spec(y));
  EXPECT_TRUE(full_tensor(x).equal(ramp({4, 6}) * 2));
  const auto leaf = place(ramp({4, 6}).requires_grad_(), Shard{0}, kR);
  EXPECT_TRUE(leaf.requires_grad() && leaf.is_leaf());
}

// Catches: a decision reused although an ingredient changed, and a cache that never hits.
TEST_F(DispatchTest, CachedDecisionsHoldEverythingTheyDependOn) {
  auto x = place(ramp({4, 6}), Shard{0}, kR);
  x.sum(1);
  const auto before = current_context()->counters;
  x.sum(1);
  EXPECT_EQ(current_context()->counters.cache_hits, before.cache_hits + 1);
  EXPECT_TRUE(full_tensor(x.sum(0)).equal(ramp({4, 6}).sum(0)));
  EXPECT_TRUE(full_tensor(x * 2).equal(ramp({4, 6}) * 2));
  EXPECT_TRUE(full_tensor(x * 3).equal(ramp({4, 6}) * 3));
  EXPECT_EQ(full_tensor(x.sum(1, true)).dim(), 2);
}

// Catches: a scalar read from one rank's term of a pending sum.
TEST_F(DispatchTest, HostReadsReduceFirst) {
  auto x = place(ramp({4, 6}), Shard{0}, Shard{1});
  EXPECT_EQ(x.sum().item<float>(), ramp({4, 6}).sum().item<float>());
  EXPECT_TRUE(at::equal(x, place(ramp({4, 6}), kR, Partial{})));
  // Replicas that differ: the ranks would take different branches.
  PerRank<at::Tensor> locals;
  for (int i = 0; i < 6; ++i) locals.push_back(at::full({}, i, at::kFloat));
  auto torn = from_local(locals, mesh_, {kR, kR}, std::nullopt, std::nullopt, false);
  EXPECT_TRUE(says(error_of([&] { torn.item<float>(); }), {"rank", "diverged"}));
  const auto two = from_local({at::zeros({}), at::ones({})}, init_device_mesh({2}), {kR}, std::nullopt,
                              std::nullopt, false);
  EXPECT_TRUE(says(error_of([&] { two.item<float>(); }), {"rank", "diverged"}));
}

// Catches: locals accepted although replicas differ or shapes do not add up.
TEST_F(DispatchTest, FromLocalChecks) {
  PerRank<at::Tensor> locals;
  for (int i = 0; i < 6; ++i) locals.push_back(at::full({2}, i, at::kFloat));
  EXPECT_TRUE(says(error_of([&] { from_local(locals, mesh_, {kR, kR}); }), {"rank", "replicated"}));
  EXPECT_TRUE(says(error_of([&] {
                     from_local(locals, mesh_, {Shard{0}, Shard{0}}, std::vector<int64_t>{13});
                   }),
                   {"rank", "13"}));
  EXPECT_EQ(spec(from_local(locals, mesh_, {Shard{0}, Shard{0}})).shape(), std::vector<int64_t>{12});
}

// Catches: sizes() that tell of elements that no rank holds, because nobody asked for the check of replicas;
// an average of integers that comes back as floats.
TEST_F(DispatchTest, FromLocalNeverLiesAboutShapes) {
  const auto mesh = init_device_mesh({2});
  const auto join = [&](int64_t a, int64_t b, std::optional<std::vector<int64_t>> shape) {
    return from_local({at::ones({a}), at::ones({b})}, mesh, {Shard{0}}, std::move(shape), std::nullopt,
                      false);
  };
  EXPECT_TRUE(says(error_of([&] { join(3, 2, std::nullopt); }), {"rank 1", "pass the global shape"}));
  EXPECT_EQ(full_tensor(join(3, 2, std::vector<int64_t>{5})).sizes(), std::vector<int64_t>{5});
  const auto ints = at::ones({2}, at::kLong);
  EXPECT_TRUE(says(error_of([&] {
                     from_local({ints, ints}, mesh, {Partial{ReduceOp::kAvg}});
                   }),
                   {"Pavg of i64", "use P (sum)"}));
}

// Catches: a row that would average integers, offered to the rules' own suite or printed as legal.
TEST_F(DispatchTest, RowsReduceAsTheirDtypesCan) {
  const auto partials = [](c10::ScalarType dtype) {
    OpCall call;
    call.inputs.push_back({.defined = true, .shape = {4}, .stride = {1}, .dtype = dtype});
    call.outputs = call.inputs;
    call.current = {Replicate{}};
    int64_t all = 0, averages = 0;
    for (const auto& row : legal_rows(*find_op("aten::clone"), call)) {
      all += is_partial(row.inputs[0]) ? 1 : 0;
      averages += is_partial(row.inputs[0], ReduceOp::kAvg) ? 1 : 0;
    }
    return std::pair(all, averages);
  };
  EXPECT_EQ(partials(at::kFloat), std::pair(int64_t{5}, int64_t{1}));
  EXPECT_EQ(partials(at::kLong), std::pair(int64_t{4}, int64_t{0}));
}

// Catches: an error of libtorch's deep below, or a crash, where a tensor cannot be cut.
TEST_F(DispatchTest, OnlyDenseRealTensorsOfTheCpuAreCut) {
  const auto mesh = init_device_mesh({2});
  const std::vector<std::pair<at::Tensor, const char*>> unfit = {
      {{}, "undefined"},
      {at::empty({2}, at::kMeta), "meta"},
      {at::eye(2).to_sparse(), "to_dense()"},
      {at::eye(2).to_sparse_csr(), "to_dense()"},
      {at::ones({2}, at::kComplexFloat), "view_as_real()"},
      {at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8), "dequantize()"},
      {distribute_tensor(at::ones({2}), mesh, {kR}), "redistribute"}};
  for (const auto& [tensor, part] : unfit) {
    EXPECT_TRUE(
        says(error_of([&, t = tensor] { distribute_tensor(t, mesh, {kR}); }), {"[distribute_tensor]", part}))
        << part;
    EXPECT_TRUE(says(error_of([&, t = tensor] {
                       from_local({t, t}, mesh, {kR});
                     }),
                     {"[from_local]", "rank 0", part}))
        << part;
  }
}

// Catches: a fill value that went through a double.
TEST_F(DispatchTest, FullHoldsEveryInteger) {
  const int64_t big = 9007199254740993;
  EXPECT_EQ(full_tensor(lockstep::full({3}, big, mesh_, {Shard{0}, kR}, at::kLong))[2].item<int64_t>(), big);
  EXPECT_EQ(full_tensor(lockstep::full({3}, 0.5, mesh_, {kR, Partial{}}))[2].item<float>(), 0.5f);
}

// Catches: an error that names two equal meshes and not what differs.
TEST_F(DispatchTest, TwoWorldsOfOneMeshSayWhy) {
  const auto a = init_device_mesh({2}, {"tp"}), b = init_device_mesh({2}, {"tp"});
  const auto on = [](const MeshInWorld& mesh) { return distribute_tensor(at::ones({4}), mesh, {Shard{0}}); };
  EXPECT_TRUE(says(error_of([&] { on(a) + on(b); }), {"tp:2 and tp:2", "two Worlds", "init_device_mesh"}));
  EXPECT_TRUE(says(error_of([&] { on(a) + on(init_device_mesh({4})); }), {"tp:2 and 4", "full_tensor"}));
  EXPECT_TRUE(full_tensor(on(a) + on(init_device_mesh({2}, {"tp"}, a.world))).equal(at::full({4}, 2.0f)));
}

static_assert(!std::is_copy_constructible_v<ExplicitRedistribution>);

// Catches: list ops that treat every element as the first.
TEST_F(DispatchTest, ForeachDecidesForEachElement) {
  std::vector<at::Tensor> list{place(ramp({4, 6}), Shard{0}, kR), place(ramp({5}), kR, Shard{0})};
  at::_foreach_add_(list, 1);
  const auto scaled = at::_foreach_mul(list, list);
  EXPECT_TRUE(full_tensor(list[1]).equal(ramp({5}) + 1));
  EXPECT_TRUE(full_tensor(scaled[0]).equal((ramp({4, 6}) + 1).square()));
  EXPECT_EQ(placements(scaled[1]), (Placements{kR, Shard{0}}));
}

// Catches: out variants that leave stale sizes.
TEST_F(DispatchTest, OutVariantsRefreshMetadata) {
  auto a = place(ramp({4, 6}), Shard{0}, kR), b = place(ramp({6, 3}), kR, Shard{1});
  auto out = empty({0}, mesh_, {kR, kR});
  at::mm_out(out, a, b);
  EXPECT_EQ(out.sizes(), (std::vector<int64_t>{4, 3}));
  EXPECT_TRUE(full_tensor(out).equal(ramp({4, 6}).mm(ramp({6, 3}))));
  auto t = place(ramp({4, 6}), Shard{0}, kR);
  t.t_();
  EXPECT_TRUE(full_tensor(t).equal(ramp({4, 6}).t()));
}

// Catches: gradients that are scaled by the number of ranks, or placed as terms where they are whole.
TEST_F(DispatchTest, GradientsOfEveryPlacement) {
  const auto value = ramp({4, 6}), weight = ramp({6, 2});
  auto plain = value.clone().requires_grad_();
  at::mm(plain, weight).square().sum().backward();
  for (const auto& a : {kR, Placement(Shard{0}), Placement(Shard{1}), Placement(Partial{})})
    for (const auto& b : {kR, Placement(Shard{0}), Placement(Shard{1})}) {
      auto x = parameter(place(value, a, b));
      at::mm(x, place(weight, b, a)).square().sum().backward();
      EXPECT_TRUE(full_tensor(x.grad()).equal(plain.grad())) << spec(x);
      const auto expected = is_partial(a) ? Placements{kR, b} : Placements{a, b};
      EXPECT_EQ(placements(x.grad()), expected);
    }
}

// Catches: printing a shard as if it were the tensor; saving garbage.
TEST_F(DispatchTest, PrintsAndRefusesStorage) {
  std::ostringstream text;
  text << place(ramp({2, 3}), Shard{0}, kR);
  EXPECT_TRUE(says(text.str(), {"DTensor", "f32[2x3]@[S0,R]", "dp:2,tp:3", "-7"}));
  std::ostringstream plain;
  plain << ramp({2, 3});
  EXPECT_TRUE(says(plain.str(), {"CPUFloatType"}));
  auto x = place(ramp({2, 3}), Shard{0}, kR);
  EXPECT_TRUE(says(error_of([&] { x.data_ptr(); }), {"full_tensor()"}));
  EXPECT_TRUE(says(error_of([&] { x.storage(); }), {"full_tensor()"}));
}

// Catches: shards that each draw the same numbers; a stream that only some ranks advance.
TEST_F(DispatchTest, RandomOpsDrawTheSingleDevicesNumbers) {
  for (const auto& p : {kR, Placement(Shard{0}), Placement(Shard{1}), Placement(InterleavedShard{1, 2})}) {
    manual_seed(0);
    const auto x = full_tensor(lockstep::rand({4, 4}, mesh_, {p, Shard{0}}));
    EXPECT_FLOAT_EQ(x[0][0].item<float>(), .39904648f);
    EXPECT_FLOAT_EQ(x[0][3].item<float>(), .94007939f);
    EXPECT_EQ(generator().state.offset, 4u);
  }
}

// Catches: ops that leave no trace, and digests of the wrong side of an in-place op.
TEST_F(DispatchTest, TheTimelineHoldsEveryOp) {
  auto x = place(ramp({4, 6}), Shard{1}, kR);
  Timeline timeline;
  {
    TimelineScope scope(timeline);
    x.add_(1);
    at::relu(at::mm(x, place(ramp({6, 2}), Shard{0}, kR)));
  }
  std::vector<std::string> ops;
  for (const auto& entry : timeline) ops.push_back(entry.op);
  EXPECT_EQ(ops, (std::vector<std::string>{"aten::add_.Scalar", "lockstep::redistribute", "aten::mm",
                                           "lockstep::redistribute", "aten::relu"}));
  EXPECT_EQ(timeline[0].aliases, std::vector<int64_t>{0});
  EXPECT_NE(timeline[0].inputs[0].digests, timeline[0].outputs[0].digests);
  EXPECT_EQ(timeline[2].inputs[0].digests, timeline[0].outputs[0].digests);
  EXPECT_TRUE(timeline[3].implicit);
}

// A decision holds for every World that has the mesh, the shapes that it expects of hosted ranks do not.
// Catches: shapes remembered for the ranks of the World that came first.
TEST_F(DispatchTest, OneMeshInTwoWorlds) {
  const auto value = ramp({5, 2});
  const auto both = init_device_mesh({2}), last = init_device_mesh({2}, {}, lone_world(2, 1));
  for (int round = 0; round < 2; ++round)
    for (const auto& mesh : {both, last}) {
      const auto x = distribute_tensor(value, mesh, {Shard{0}}, {}, std::nullopt);
      EXPECT_TRUE(local_tensors(at::neg(x)).back().equal(-value.narrow(0, 3, 2)));
    }
}

// One rank is the identity: same values, and no collective. Catches: special cases that forget size one.
TEST_F(DispatchTest, AWorldOfOneIsTheIdentity) {
  const auto one = init_device_mesh({1});
  auto x = distribute_tensor(ramp({4, 6}), one, {Shard{1}});
  EXPECT_TRUE(full_tensor(at::mm(x, x.t()).softmax(0)).equal(ramp({4, 6}).mm(ramp({4, 6}).t()).softmax(0)));
  // One number in the place of many, which a dense copy is not.
  const auto matrix = at::sin(ramp({200})).view({2, 100}), number = at::full({}, 0.7f);
  const auto pending = distribute_tensor(number, one, {Partial{ReduceOp::kMax}}).expand({100});
  const auto product = at::mv(distribute_tensor(matrix, one, {Shard{1}}), pending);
  const auto expected = at::mv(matrix, number.expand({100}));
  EXPECT_TRUE(full_tensor(product).equal(expected));
  // So does the gradient of what somebody placed elsewhere.
  const auto pair = distribute_tensor(ramp({2}), one, {Replicate{}}).requires_grad_();
  const auto moved =
      redistribute(at::mv(distribute_tensor(matrix, one, {Shard{1}}).t(), pair), {Replicate{}});
  EXPECT_TRUE(full_tensor(torch::autograd::grad({moved}, {pair}, {pending})[0]).equal(expected));
}

// The table covers what it says. Catches: names that no libtorch operator has.
TEST_F(DispatchTest, EveryTableEntryIsAnOperator) {
  std::set<std::string> names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) names.insert(name.name);
  for (const auto& entry : op_table())
    EXPECT_TRUE(names.contains(entry.name) || names.contains(entry.name + "_")) << entry.name;
  for (size_t i = 1; i < op_table().size(); ++i) EXPECT_LT(op_table()[i - 1].name, op_table()[i].name);
}

// Every operator of a tensor and a number that has a rule gives the plain one's bits. Catches: inference that
// takes the number for a tensor.
TEST_F(DispatchTest, NumbersBesideDTensors) {
  int64_t called = 0;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema() || find_op(name.name) == nullptr) continue;
    const auto& args = op->schema().arguments();
    const bool fits = args.size() >= 2 && !op->schema().is_mutable() &&
                      args[0].type()->kind() == c10::TypeKind::TensorType &&
                      args[1].type()->kind() == c10::TypeKind::NumberType &&
                      std::all_of(args.begin() + 2, args.end(), [](auto& a) { return a.default_value(); });
    if (!fits) continue;
    for (const auto dtype : {at::kFloat, at::kLong}) {
      const auto x = ramp({4, 6}).to(dtype);
      torch::jit::Stack plain{x, at::Scalar(2)}, ours{place(x, Shard{0}, Shard{1}), at::Scalar(2)};
      for (auto* stack : {&plain, &ours})
        for (size_t i = 2; i < args.size(); ++i) stack->push_back(*args[i].default_value());
      if (!error_of([&] { op->callBoxed(plain); }).empty()) continue;  // not of this dtype
      EXPECT_EQ(error_of([&] { op->callBoxed(ours); }), "") << name;
      if (!plain[0].isTensor() || !ours[0].isTensor()) continue;
      EXPECT_TRUE(full_tensor(ours[0].toTensor()).equal(plain[0].toTensor())) << name;
      ++called;
    }
  }
  EXPECT_GT(called, 30);
}

}  // namespace
}  // namespace lockstep
