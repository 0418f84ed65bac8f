// SPDX-License-Identifier: Apache-2.0
// What plans do to modules: what is where, what moves when, and that values stay those of one device.
#include "engine/plan/parallelize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/fsdp/testing.h"
#include "engine/nn/blocks.h"
#include "engine/plan/styles.h"
#include "engine/tensor/timeline_log.h"

namespace lockstep {
namespace {

using nn::Linear;

// Values for which every sum is exact: small integers.
at::Tensor integers(at::IntArrayRef shape, uint64_t seed) {
  return at::randint(-3, 4, shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

void set_integers(nn::Module& module) {
  uint64_t seed = 0;
  for (const auto& [path, value] : module.named_parameters())
    module.set_parameter(path, integers(value.sizes(), ++seed).requires_grad_());
}

struct StyleCase {
  const char* name;
  ParallelPlan plan;
  const char *weight, *input, *output;  // placements; null: any
};

// Catches: a weight cut along the wrong dimension, a bias that is added once a rank, an output that no hook
// places, a gradient that is not the sum of the ranks' terms. 5 and 7 divide by none of the mesh sizes.
TEST(ParallelLinear, IsThePlainOneInBits) {
  const StyleCase cases[] = {
      {"colwise", colwise_parallel("", "tp", Replicate{}, std::nullopt, true), "[S0]", "[R]", "[S2]"},
      {"colwise from sequence", colwise_parallel("", "tp", Replicate{}, Placement(Replicate{}), true), "[S0]",
       "[S1]", "[R]"},
      {"rowwise", rowwise_parallel("", "tp"), "[S1]", "[S2]", "[R]"},
      {"rowwise to sequence", rowwise_parallel("", "tp", Shard{1}), "[S1]", "[R]", "[S1]"},
      {"sequence", sequence_parallel("", "tp"), "[R]", "[R]", nullptr},
      {"early", parse_plan("init:weight:shard(S1,tp)\nforward_post:<out>:redist_early(P->R,tp)"), "[S1]",
       "[S2]", "[R]"},
      {"gradients, too",
       parse_plan("init:weight:shard(S0,tp)\nforward_pre:<in>:0:redist(S1->R,tp)\n"
                  "backward_post:<in>:0:redist(P->S1,tp)\n"
                  "backward_pre:<out>:redist(->S2,tp)"),
       "[S0]", "[S1]", "[S2]"},
  };
  for (const auto& c : cases)
    for (const int64_t ranks : {1, 2, 3, 8}) {
      SCOPED_TRACE(concat(c.name, " on ", ranks));
      const bool bias = std::string_view(c.name).starts_with("col");
      Linear plain(5, 7, bias), parallel(5, 7, bias);
      set_integers(plain);
      set_integers(parallel);
      const auto mesh = init_device_mesh({ranks}, {"tp"});
      parallelize(parallel, mesh, c.plan);
      EXPECT_EQ(to_string(placements(parallel.parameter("weight"))), c.weight);
      const auto x = integers({2, 4, 5}, 9).requires_grad_(), w = integers({2, 4, 7}, 10);
      const auto placed = parameter(distribute_tensor(x.detach(), mesh, parse_placements(c.input)));
      const auto expected = plain(x), actual = parallel(placed);
      if (c.output != nullptr) {
        EXPECT_EQ(to_string(placements(actual)), c.output);
      }
      EXPECT_TRUE(at::equal(expected, full_tensor(actual)));
      (expected * w).sum().backward();
      (actual * distribute_tensor(w, mesh, parse_placements("[R]"))).sum().backward();
      EXPECT_TRUE(at::equal(x.grad(), full_tensor(placed.grad())));
      for (const auto& [path, parameter] : parallel.named_parameters()) {
        EXPECT_EQ(placements(parameter), placements(parameter.grad())) << path;
        EXPECT_TRUE(at::equal(plain.parameter(path).grad(), full_tensor(parameter.grad()))) << path;
      }
    }
}

// Catches: a row that two ranks own, an index outside of a shard that reads memory, uneven vocabularies.
TEST(ParallelEmbedding, IsThePlainOneInBits) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    nn::Embedding plain(9, 4), parallel(9, 4);
    set_integers(plain);
    set_integers(parallel);
    const auto mesh = init_device_mesh({ranks}, {"tp"});
    parallelize(parallel, mesh, vocabulary_parallel("", "tp", Shard{1}));
    const auto indices = at::arange(18).remainder(9).view({2, 9});
    const auto expected = plain(indices);
    const auto actual = parallel(distribute_tensor(indices, mesh, parse_placements("[R]")));
    EXPECT_EQ(to_string(placements(actual)), "[S1]");
    EXPECT_TRUE(at::equal(expected, full_tensor(actual)));
    expected.sum().backward();
    actual.sum().backward();
    EXPECT_TRUE(
        at::equal(plain.parameter("weight").grad(), full_tensor(parallel.parameter("weight").grad())));
  }
}

// Catches: a row that is lost, or that takes part of a path for the whole; buffers that no row can name;
// mesh dimensions of which one row forgets the other's.
TEST(Parallelize, PlacesWhatTheRowsName) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  Net net;
  parallelize(net, mesh, parse_plan(R"(
blocks\.\d+\.a.init:weight:shard(S0,tp)
blocks\.1\.a.init:weight:shard(S1,dp)
last.init:weight:shard([S-1,S0],tp,dp)
)"));
  const auto at = [&](const char* path) { return to_string(placements(net.parameter(path))); };
  EXPECT_EQ(at("blocks.0.a.weight"), "[R,S0]");
  EXPECT_EQ(at("blocks.1.a.weight"), "[S1,S0]");
  EXPECT_EQ(at("blocks.1.a.bias"), "[R,R]");
  EXPECT_EQ(at("last.weight"), "[S0,S1]");
  nn::CrossEntropy loss(5);
  parallelize(loss, mesh, parse_plan("init:classes:shard(S0,tp)"));
  EXPECT_EQ(to_string(placements(loss.buffer("classes"))), "[R,S0]");
}

// Catches: a module that is half changed, or has hooks, when its plan turns out to be wrong; an error that
// leaves the reader to guess.
TEST(Parallelize, WhatThrowsHasChangedNothing) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  nn::Mlp mlp(4, 6);
  set_integers(mlp);
  const std::pair<const char*, const char*> wrong[] = {
      {"dwn_proj.init:weight:shard(S0,tp)",
       "no module's path matches 'dwn_proj' (did you mean 'down_proj'?)"},
      {"up_proj.init:weigth:shard(S0,tp)",
       "up_proj has no parameter or buffer 'weigth' (did you mean 'weight'?)"},
      {"up_proj.init:bias:shard(S0,tp)", "has no parameter or buffer 'bias'"},
      {"up_proj.run:bias:shard(R,tp)", "has no parameter 'bias'"},
      {"init:up_proj:shard(S0,tp)", "(the model) has no parameter or buffer"},
      {"up_proj.init:weight:shard(S0,pp)", "the mesh dp:2,tp:2 has no dimension 'pp'"},
      {"up_proj.init:weight:shard(S2,tp)", "S2 of a tensor of shape [6, 4]"},
      {"up_proj.init:weight:shard(S-3,tp)", "S-3 of a tensor of shape [6, 4]"},
      {".*_proj.init:weight:shard(S1,tp)", "two rows say where weight of gate_proj"},
      {"gate_proj.init:weight:shard([S1,R],dp,tp)", "two rows say where weight of gate_proj"},
      {"down_proj.run:weight:shard(S7,tp)", "S7 of a tensor of shape [4, 6]"},
      {"down_proj.init:*:shard(G,tp)", "G is of what is whole while that module runs"},
      {"init:*:shard(G,dp)\nrun:*:shard(R,dp)\nup_proj.run:weight:shard(R,tp)\nup_proj.init:weight:shard(S0,"
       "tp)",
       "gathered in the buffer of (the model)"},
      {"init:*:shard(G,dp)\nrun:*:shard(R,dp)\nup_proj.run:*:shard(R,tp)\nup_proj.init:*:shard(S0,tp)",
       "in the buffer of (the model) already"},
  };
  for (const auto& [row, part] : wrong) {
    const auto text =
        concat("gate_proj.init:weight:shard(S0,tp)\ngate_proj.forward_pre:<in>:0:redist(->R,tp)\n", row);
    const auto message = error_of([&] { parallelize(mlp, mesh, parse_plan(text)); });
    EXPECT_TRUE(says(message, {part})) << row << "\n" << message;
  }
  for (const auto& parameter : mlp.parameters()) EXPECT_FALSE(is_dtensor(parameter));
  EXPECT_TRUE(mlp.hooks().empty());
  EXPECT_NO_THROW(mlp(at::ones({2, 4})));
}

// Catches: a plain tensor that a hook would silently take for a replicated one; a row that speaks of what
// does not come, or comes otherwise than it says.
TEST(Parallelize, CallsThatAreNotAsTheRowsSayAreErrors) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  const auto error = [&](const char* plan, const at::Tensor& x) {
    Linear linear(4, 4, false);
    parallelize(linear, mesh, parse_plan(plan));
    init(linear);
    return error_of([&] { linear(x); });
  };
  const auto x = distribute_tensor(at::ones({2, 4}), mesh, {Replicate{}});
  EXPECT_EQ(error("forward_pre:<in>:0:redist(R->S0,tp)", x), "");
  EXPECT_TRUE(
      says(error("forward_pre:<in>:0:redist(->R,tp)", at::ones({2, 4})), {"plain", "distribute_tensor"}));
  EXPECT_TRUE(says(error("forward_pre:<in>:1:redist(->R,tp)", x), {"<in>:1", "a call has 1 inputs"}));
  EXPECT_TRUE(says(error("forward_pre:<in>:0:redist(S1->R,tp)", x),
                   {"redist(S1->R,tp) of (the model)", "R along 'tp'"}));
}

struct Identity : nn::Module {
  at::Tensor forward(const Tensors& in) override { return in.at(0); }
};

// Terms along two mesh dimensions: the order in which they are added up is that of the row, whatever a route
// would take.
TEST(Parallelize, SumsAlongSeveralDimensionsAreNestedAsTheRowSays) {
  const auto mesh = init_device_mesh({2, 3}, {"a", "b"});
  const auto terms = from_local(
      [&] {
        PerRank<at::Tensor> locals;
        for (uint64_t r = 0; r < 6; ++r) locals.push_back(values({64}, r));
        return locals;
      }(),
      mesh, {Partial{}, Partial{}}, std::vector<int64_t>{64});
  for (const bool a_first : {true, false}) {
    Identity identity;
    parallelize(identity, mesh,
                parse_plan(a_first ? "forward_post:<out>:redist(->[R,R],a,b)"
                                   : "forward_post:<out>:redist(->[R,R],b,a)"));
    const auto once = redistribute(
        terms, a_first ? Placements{Replicate{}, Partial{}} : Placements{Partial{}, Replicate{}});
    EXPECT_TRUE(same(full_tensor(identity(terms)), full_tensor(once)));
  }
}

// Blocks, and what they leave: cut by rows from the start, whole while they run.
constexpr const char* kZero3 = R"(
blocks\.\d+.init:*:shard(S0,fsdp)
blocks\.\d+.run:*:shard(R,fsdp)
init:*:shard(S0,fsdp)
run:*:shard(R,fsdp)
)";

// Catches: a parameter that stays whole, or is not shown whole; a gradient that does not come back, or comes
// twice; buffers and single tensors that differ.
TEST(Parallelize, InBuffersOrTensorByTensorBitsAreTheSame) {
  for (const int64_t ranks : {1, 2, 3}) {
    const auto mesh = init_device_mesh({ranks}, {"fsdp"});
    Net buffered, single, reference;
    parallelize(buffered, mesh, parse_plan(kZero3));
    parallelize(single, mesh, parse_plan(kZero3), {.in_buffers = false});
    replicate(reference, mesh);
    for (auto* model : {&buffered, &single}) init(*model);
    EXPECT_TRUE(is_cut(buffered));
    for (const auto& [path, parameter] : single.named_parameters())
      EXPECT_EQ(to_string(placements(parameter)), "[S0]") << path;
    for (uint64_t step = 0; step < 2; ++step) {
      for (auto* model : {&buffered, &single, &reference}) loss_of((*model)(batch(mesh, step))).backward();
      expect_same_parameters(buffered, reference);
      expect_same_parameters(single, reference);
    }
    for (const auto& [path, parameter] : single.named_parameters())
      EXPECT_EQ(to_string(placements(parameter.grad())), "[S0]") << path;
  }
}

// Whose sums are exact where its values are small integers.
struct Pair : nn::Module {
  Pair() {
    a = add_child("a", std::make_shared<Linear>(5, 7));
    b = add_child("b", std::make_shared<Linear>(7, 5, false));
  }
  at::Tensor forward(const Tensors& in) override { return (*b)((*a)(in.at(0))); }
  std::shared_ptr<Linear> a, b;
};

// A row that names a tensor goes before "*", and "*" of a module within before that around it. Catches: a
// parameter of which two rows of several modules speak, that is placed by the wrong one, or gathered by none.
TEST(Parallelize, TheNarrowestRowIsFollowed) {
  const auto mesh = init_device_mesh({2, 2}, {"fsdp", "tp"});
  const auto plan = parse_plan(R"(
init:*:shard(S0,fsdp)
run:*:shard(R,fsdp)
0.init:*:shard(R,fsdp)
0.run:*:shard(R,fsdp)
1\.a.init:weight:shard(S1,fsdp)
1\.a.run:weight:shard(R,fsdp)
1\.b.init:weight:shard(S1,tp)
)");
  for (const bool in_buffers : {true, false}) {
    nn::Sequential sharded, plain;
    for (auto* model : {&sharded, &plain}) {
      for (int i = 0; i < 2; ++i) model->push_back(std::make_shared<Pair>());
      set_integers(*model);
    }
    parallelize(sharded, mesh, plan, {.in_buffers = in_buffers});
    const auto at = [&](const char* path) { return to_string(placements(sharded.parameter(path))); };
    EXPECT_EQ(at("0.a.weight"), "[R,R]");
    EXPECT_EQ(at("1.a.weight"), "[S1,R]");
    EXPECT_EQ(at("1.b.weight").substr(0, in_buffers ? 2 : 3), in_buffers ? "[G" : "[S0");
    EXPECT_TRUE(at("1.b.weight").ends_with(",S1]"));
    const auto x = integers({4, 5}, 1);
    plain(x).sum().backward();
    sharded(distribute_tensor(x, mesh, {Shard{0}, Replicate{}})).sum().backward();
    for (const auto& [path, parameter] : plain.named_parameters())
      EXPECT_TRUE(same(full_tensor(sharded.parameter(path).grad()), parameter.grad())) << path;
  }
}

// Catches: a parameter of two modules that is gathered by one of them, and cut for the other; modules of
// which one has the longer path, which says nothing of which is meant.
TEST(Parallelize, WhatSeveralModulesShareIsOfOneRow) {
  const auto mesh = init_device_mesh({2}, {"fsdp"});
  const auto error = [&](const std::string& plan, const ParallelizeOptions& options = {}) {
    Net net;
    net.set_parameter("blocks.1.a.weight", net.parameter("blocks.0.a.weight"));
    const auto message = error_of([&] { parallelize(net, mesh, parse_plan(plan), options); });
    EXPECT_EQ(is_dtensor(net.parameter("blocks.0.a.weight")), message.empty());
    EXPECT_TRUE(net.parameter("blocks.0.a.weight").is_same(net.parameter("blocks.1.a.weight")));
    return message;
  };
  for (const bool in_buffers : {true, false}) {
    const ParallelizeOptions options{.in_buffers = in_buffers};
    EXPECT_TRUE(says(error(kZero3, options), {"several modules share 'blocks.0.a.weight'"}));
    EXPECT_TRUE(says(
        error("blocks\\.(0|1\\.a).init:*:shard(S0,fsdp)\nblocks\\.(0|1\\.a).run:*:shard(R,fsdp)", options),
        {"several modules share 'blocks.0.a.weight'"}));
    EXPECT_EQ(error("blocks.init:*:shard(S0,fsdp)\nblocks.run:*:shard(R,fsdp)", options), "");
  }
  EXPECT_TRUE(says(error("blocks\\.0.init:*:shard(S0,fsdp)\nblocks\\.0.run:*:shard(R,fsdp)"),
                   {"'blocks.1.a.weight' is 'blocks.0.a.weight' of blocks.0, and is not within it"}));
  EXPECT_TRUE(
      says(error("blocks\\.0\\.a.init:weight:shard(S0,fsdp)\nblocks\\.1\\.a.init:weight:shard(S1,fsdp)"),
           {"let them say the same"}));
}

// Catches: an outer module that is given to fully_shard before one within it, which then has no parameters
// left.
TEST(Parallelize, ModulesThatStandTwiceAreWithinBoth) {
  const auto mesh = init_device_mesh({2}, {"fsdp"});
  const auto shared = std::make_shared<Pair>();
  nn::Sequential model;
  for (int i = 0; i < 2; ++i) {
    const auto around = std::make_shared<nn::Sequential>();
    around->push_back(shared);
    around->push_back(std::make_shared<Linear>(5, 5));
    model.push_back(around);
  }
  parallelize(model, mesh,
              parse_plan("0.init:*:shard(G,fsdp)\n0.run:*:shard(R,fsdp)\n"
                         "1\\.0.init:*:shard(G,fsdp)\n1\\.0.run:*:shard(R,fsdp)"));
  EXPECT_EQ(to_string(model.hooks()), "0 | around | fully_shard\n0.0 | around | fully_shard\n");
  EXPECT_FALSE(is_cut(model));
  EXPECT_TRUE(is_cut(*shared));
}

// Catches: dtypes that are asked for and silently not there.
TEST(Parallelize, MixedPrecisionIsOfBuffers) {
  const auto mesh = init_device_mesh({2}, {"fsdp"});
  Net net;
  const ParallelizeOptions options{.in_buffers = false,
                                   .buffers = {.mp_policy = {.param_dtype = at::kBFloat16}}};
  EXPECT_TRUE(says(error_of([&] { parallelize(net, mesh, parse_plan(kZero3), options); }), {"mp_policy"}));
}

// lin(x w w) + x w, and what its ops read.
struct Product : nn::Module {
  Product() { lin = add_child("lin", std::make_shared<Linear>(6, 6, false)); }
  at::Tensor forward(const Tensors& in) override {
    const auto y = in.at(0).mm(in.at(1));
    return (*lin)(y.mm(in.at(1))) + y;
  }
  std::shared_ptr<Linear> lin;
};

// Catches: a row that moves another call's input, or that of a module within; a moved input whose gradient is
// lost; one that stays moved for who comes after.
TEST(Parallelize, InputsOfOpsMoveBeforeTheOp) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  const auto read_by_products = [&](const std::string& plan) {
    Product plain, placed;
    set_integers(plain);
    set_integers(placed);
    parallelize(placed, mesh, parse_plan(plan));
    const auto x = integers({4, 6}, 1).requires_grad_(), w = integers({6, 6}, 2).requires_grad_();
    const auto dx = parameter(distribute_tensor(x.detach(), mesh, {Shard{0}}));
    const auto dw = parameter(distribute_tensor(w.detach(), mesh, {Replicate{}}));
    Timeline timeline;
    at::Tensor y;
    {
      const TimelineScope log(timeline);
      y = placed(dx, dw);
    }
    const auto expected = plain(x, w);
    EXPECT_TRUE(at::equal(full_tensor(y), expected));
    expected.sum().backward();
    y.sum().backward();
    EXPECT_TRUE(at::equal(full_tensor(dx.grad()), x.grad()));
    EXPECT_TRUE(at::equal(full_tensor(dw.grad()), w.grad()));
    std::string read;
    for (const auto& entry : timeline)
      if (entry.op == "aten::mm") read += to_string(entry.inputs.at(0).spec->placements());
    return read;
  };
  EXPECT_EQ(read_by_products(""), "[S0][S0][S0]");
  EXPECT_EQ(read_by_products("aten::mm#1.forward_pre:<in>:0:redist(->R,tp)"), "[S0][R][R]");
  EXPECT_EQ(read_by_products("aten::mm#0.forward_pre:<in>:0:redist(->R,tp)\n"
                             "lin\\.aten::mm.forward_pre:<in>:0:redist(->S0,tp)"),
            "[R][R][S0]");
  EXPECT_EQ(read_by_products("aten::mm.forward_pre:<in>:0:redist(->S-1,tp)\n"
                             "aten::mm.forward_pre:<in>:1:redist(->S0,tp)"),
            "[S1][S1][S0]");
}

// Catches: an input that is not there, an op that would write to a copy, two rows of one call.
TEST(Parallelize, WhatOfOpsCannotMoveIsAnError) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  struct Writes : nn::Module {
    at::Tensor forward(const Tensors& in) override { return in.at(0).clone().add_(1); }
  };
  const auto error = [&](const std::string& plan) {
    Writes model;
    return error_of([&] {
      parallelize(model, mesh, parse_plan(plan));
      model(distribute_tensor(at::ones({2, 4}), mesh, {Replicate{}}));
    });
  };
  EXPECT_TRUE(says(error("aten::add_.forward_pre:<in>:0:redist(->S0,tp)"), {"writes to that input"}));
  EXPECT_TRUE(says(error("aten::clone.forward_pre:<in>:1:redist(->S0,tp)"), {"aten::clone has 1 tensors"}));
  EXPECT_TRUE(says(error("aten::clone.forward_pre:<in>:0:redist(->S2,tp)"), {"a dimension that it has"}));
  EXPECT_TRUE(says(error("aten::clone.forward_pre:<in>:0:redist(->S0,tp)\n"
                         "aten::clone#1.forward_pre:<in>:0:redist(->R,tp)"),
                   {"two rows say"}));
  EXPECT_EQ(error("aten::clone#0.forward_pre:<in>:0:redist(->S0,tp)\n"
                  "aten::clone#1.forward_pre:<in>:0:redist(->R,tp)"),
            "");
  EXPECT_TRUE(says(error("aten::clone#x.forward_pre:<in>:0:redist(->S0,tp)"), {"is no op"}));
  EXPECT_TRUE(says(error("aten::clone.forward_post:<out>:redist(->S0,tp)"), {"forward_pre"}));
}

// Catches: a factory that stays plain, one elsewhere than it is to be, a draw that is not the single
// device's, factories outside that become DTensors.
TEST(Parallelize, FactoriesMakeWhatTheRowSays) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  struct Makes : nn::Module {
    at::Tensor forward(const Tensors& in) override {
      counted = at::arange(24, at::kFloat).view({4, 6});
      drawn = at::rand({4, 6});
      return in.at(0) + counted * at::ones({4, 6}) + drawn;
    }
    at::Tensor counted, drawn;
  };
  Makes model;
  parallelize(model, mesh, ParallelPlan().factory("", {Shard{0}}, {"tp"}));
  manual_seed(5);
  const auto y = model(distribute_tensor(at::ones({4, 6}), mesh, {Replicate{}, Shard{0}}));
  manual_seed(5);
  const auto drawn = full_tensor(rand({4, 6}, mesh, {Replicate{}, Replicate{}}));
  EXPECT_EQ(to_string(placements(model.drawn)), "[R,S0]");
  EXPECT_TRUE(same(full_tensor(model.drawn), drawn));
  EXPECT_TRUE(same(full_tensor(y), 1 + at::arange(24, at::kFloat).view({4, 6}) + drawn));
  EXPECT_EQ(to_string(placements(y)), "[R,S0]");
  EXPECT_FALSE(is_dtensor(at::ones({2})));
  EXPECT_EQ(to_string(model.hooks()), "(the model) | around | run:<factory>:shard(S0,tp)\n");
}

// Catches: a gradient that is reduced at once, or never; one of another row; parameters that other rows have
// cut, or that lie in a buffer.
TEST(Parallelize, AnnotatedGradientsPendUntilThePassEnds) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  Net planned, plain;
  parallelize(planned, mesh,
              ParallelPlan()
                  .annotate("*.grad", {Partial{}, Partial{}}, {"dp", "tp"})
                  .annotate("last.weight.grad", {Partial{}, Partial{}}, {"dp", "tp"}, SumOrder::kTree));
  nn::distribute_module(plain, mesh, {});
  for (auto* net : {&planned, &plain}) init(*net);
  auto* gradients = planned.attached<PlannedGradients>();
  ASSERT_NE(gradients, nullptr);
  EXPECT_EQ(gradients->buckets.size(), 2);
  gradients->set_requires_gradient_sync(false);
  for (auto* net : {&planned, &plain}) loss_of((*net)(batch(mesh, 1))).backward();
  for (const auto& p : planned.parameters()) EXPECT_EQ(to_string(placements(p.grad())), "[P,P]");
  gradients->set_requires_gradient_sync(true);
  for (auto* net : {&planned, &plain}) loss_of((*net)(batch(mesh, 2))).backward();
  for (const auto& [path, p] : planned.named_parameters()) {
    EXPECT_EQ(to_string(placements(p.grad())), "[R,R]");
    EXPECT_TRUE(at::allclose(full_tensor(p.grad()), full_tensor(plain.parameter(path).grad()), 1e-5, 1e-6))
        << path;
  }
  const auto error = [&](const std::string& plan) {
    Net net;
    return error_of([&] { parallelize(net, mesh, parse_plan(plan)); });
  };
  EXPECT_TRUE(says(error("last.init:weight:shard(S0,tp)\nlast.backward_post:weight.grad:annot(P,tp)"),
                   {"'last.weight' is S0 along 'tp'"}));
  EXPECT_TRUE(says(error("init:*:shard(G,dp)\nrun:*:shard(R,dp)\nbackward_post:*.grad:annot(P,tp)"),
                   {"in a buffer"}));
  EXPECT_TRUE(says(error("backward_post:*.grad:annot(P,tp)\nbackward_post:*.grad:annot(P,dp)"),
                   {"one row with all its mesh dimensions"}));
  EXPECT_TRUE(
      says(error("last.backward_post:wieght.grad:annot(P,tp)"), {"no parameter 'wieght'", "'weight'"}));
  EXPECT_TRUE(says(error("last.backward_post:weight.grad:annot(S0,tp)"), {"pends as P"}));
  EXPECT_TRUE(says(error("last.backward_post:weight.grad:redist(->R,tp)"), {"annotated"}));
}

// Catches: a hook that does not say what it does; one that stays when its call has thrown.
TEST(Parallelize, HooksAreTheRows) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Net net;
  parallelize(net, mesh, parse_plan(R"(
blocks\.0\.a.run:*:shard(R,tp)
blocks\.0\.a.init:weight:shard(S0,tp)
blocks\.0.forward_pre:<in>:0:redist(R->S0,tp)
blocks\.0.forward_post:<out>:redist(->R,tp)
last.backward_pre:<out>:redist(->R,tp)
last.backward_post:<in>:0:redist(->R,tp)
)"));
  init(net);
  EXPECT_EQ(to_string(net.hooks()),
            "blocks.0 | forward pre | forward_pre:<in>:0:redist(R->S0,tp)\n"
            "blocks.0 | forward | forward_post:<out>:redist(->R,tp)\n"
            "blocks.0.a | around | run:*:shard(R,tp)\n"
            "last | backward pre | backward_pre:<out>:redist(->R,tp)\n"
            "last | backward | backward_post:<in>:0:redist(->R,tp)\n");
  const auto weight = net.parameter("blocks.0.a.weight");
  net.each[0]->a->register_forward_pre_hook([](nn::Module&, Tensors&) { throw Error("stop"); });
  EXPECT_EQ(error_of([&] { net(distribute_tensor(at::ones({2, 5}), mesh, {Replicate{}})); }), "stop");
  EXPECT_TRUE(net.parameter("blocks.0.a.weight").is_same(weight));
}

}  // namespace
}  // namespace lockstep
