// SPDX-License-Identifier: Apache-2.0
// That static eager has the bits of eager mode, or says that it cannot.
#include "engine/static_eager/static_eager.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/context/activity.h"
#include "engine/fsdp/testing.h"
#include "engine/nn/blocks.h"
#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/digest.h"
#include "engine/world/comm.h"
#include "engine/world/thread_world.h"

namespace lockstep {
namespace {

at::Tensor normal_values(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

void set_values(nn::Module& module) {
  uint64_t seed = 0;
  for (const auto& [path, value] : module.named_parameters())
    module.set_parameter(path, normal_values(value.sizes(), ++seed).requires_grad_());
  nn::make_buffers(module);
}

// A block as LLaMA's, with dropout, and a loss.
struct Block : nn::Module {
  Block() {
    norm = add_child("norm", std::make_shared<nn::RMSNorm>(8, 1e-5, at::kFloat));
    attention = add_child("attention", std::make_shared<nn::Attention>(nn::AttentionOptions{
                                           .hidden = 8, .heads = 4, .kv_heads = 2, .max_sequence = 8}));
    dropout = add_child("dropout", std::make_shared<nn::Dropout>(0.25));
    mlp = add_child("mlp", std::make_shared<nn::Mlp>(8, 12, at::kFloat));
  }
  at::Tensor forward(const nn::Tensors& inputs) override {
    const auto y = inputs[0] + (*dropout)((*attention)((*norm)(inputs[0])));
    return (y + (*mlp)(y)).square().mean();
  }
  std::shared_ptr<nn::Module> norm, attention, dropout, mlp;
};

const char* kTensorParallel = R"(
attention.forward_pre:<in>:0:redist(->R,tp)
attention\.[qkv]_proj.init:weight:shard(S0,tp)
attention\.o_proj.init:weight:shard(S1,tp)
attention\.o_proj.forward_post:<out>:redist(->R,tp)
mlp\.(gate|up)_proj.init:weight:shard(S0,tp)
mlp\.down_proj.init:weight:shard(S1,tp)
mlp\.down_proj.forward_post:<out>:redist(->R,tp)
)";

struct Case {
  const char* name;
  std::vector<int64_t> sizes;
  std::vector<std::string> dims;
  std::string plan;
  const char* batch;
};
const Case kCases[] = {
    {"one rank", {1}, {"tp"}, kTensorParallel, "[R]"},
    {"tensor parallel", {2}, {"tp"}, kTensorParallel, "[R]"},
    {"implicit", {2}, {"tp"}, "mlp\\.up_proj.init:weight:shard(S1,tp)\n", "[R]"},
    {"batch", {2}, {"dp"}, "", "[S0]"},
    {"uneven batch", {3}, {"dp"}, "", "[S0]"},
    {"batch and tensor", {2, 2}, {"dp", "tp"}, kTensorParallel, "[S0,R]"},
    {"whole", {2}, {"dp"}, to_string(fully_sharded("", "dp")), "[S0]"},
};

// What is changed after the step has been seen.
struct Change {
  const char* said = "";  // what an Error says of it
  int64_t examples = 4;
  const char* batch = "";  // placements; "": the case's
  bool requires_grad = true, grad_mode = true;
  void (*of_model)(Block& model) = nullptr;
};

struct Stepper {
  explicit Stepper(const Case& c, const WorldPtr& world = nullptr)
      : mesh(init_device_mesh(c.sizes, c.dims, world)), batch(c.batch) {
    set_values(model);
    parallelize(model, mesh, parse_plan(c.plan));
  }
  // Digests of the loss, the gradients of x and of all parameters on the hosted ranks.
  std::vector<Digest> step(uint64_t seed, const Change& change = {}) {
    manual_seed(seed);
    model.zero_grad();
    const auto placements = parse_placements(change.batch[0] != 0 ? change.batch : batch);
    auto x = distribute_tensor(normal_values({change.examples, 6, 8}, seed), mesh, placements);
    if (change.requires_grad) x = parameter(x);
    const at::AutoGradMode mode(change.grad_mode);
    const auto loss = model(x);
    if (change.grad_mode) loss.backward();
    auto all = record(loss).digests;
    auto tensors = model.parameters();
    tensors.push_back(x);
    for (const auto& each : tensors)
      if (each.grad().defined())
        for (const auto& digest : record(each.grad()).digests) all.push_back(digest);
    return all;
  }
  MeshInWorld mesh;
  Block model;
  std::string batch;
};

void expect_same_bits(const Case& c, const WorldPtr& world, bool every_op) {
  SCOPED_TRACE(c.name);
  Stepper eager(c, world), statically(c, world);
  const StaticEager seen(statically.model, [&] { statically.step(7); }, {OnChange::kError, every_op});
  for (const uint64_t seed : {7, 8, 9}) EXPECT_EQ(statically.step(seed), eager.step(seed)) << to_string(seen);
  EXPECT_TRUE(seen.eager_calls().empty());
}

// Catches: what a rank has taken for the whole, sums that miss a redistribution, gradients that are added up
// in another order, random numbers drawn twice.
TEST(StaticEager, HasTheBitsOfEagerMode) {
  for (const auto& c : kCases)
    for (const bool every_op : {false, true}) expect_same_bits(c, nullptr, every_op);
}

// Catches: ranks that do not agree on what runs statically, and wait for each other; what is called on
// DTensors from within what is not.
TEST(StaticEager, HasTheBitsOfEagerModeOnThreads) {
  for (const auto& c : kCases)
    run_on_threads(c10::multiply_integers(c.sizes), std::chrono::minutes(1),
                   [&](const WorldPtr& world) { expect_same_bits(c, world, false); });
}

std::string local_parts(const StaticEager& seen) {
  std::string all;
  for (const auto& part : seen.parts())
    if (part.is_local) all += concat(all.empty() ? "" : " ", part.path.empty() ? "(all)" : part.path);
  return all;
}

// Catches: a static mode that is static nowhere, though its bits are right.
TEST(StaticEager, IsStaticWhereEagerModeMovesNothing) {
  const auto parts_of = [](const Case& c) {
    Stepper stepper(c);
    return local_parts(StaticEager(stepper.model, [&] { stepper.step(7); }));
  };
  const std::string leaves =
      "attention.q_proj attention.k_proj attention.v_proj attention.o_proj attention.core";
  EXPECT_EQ(parts_of(kCases[0]),
            "(all) norm attention " + leaves + " mlp mlp.gate_proj mlp.up_proj mlp.down_proj");
  EXPECT_EQ(parts_of(kCases[1]), leaves + " mlp.gate_proj mlp.up_proj mlp.down_proj");
  EXPECT_EQ(parts_of(kCases[3]), "attention " + leaves + " mlp.gate_proj mlp.up_proj mlp.down_proj");
}

// Catches: a trial that leaves its gradients, or has drawn; a model that stays static.
TEST(StaticEager, LeavesTheModelAsItWas) {
  Stepper eager(kCases[0]), statically(kCases[0]);
  eager.step(3), statically.step(3);
  const auto before = record(statically.model.parameters()[0].grad()).digests;
  const auto offset = generator().state.offset;
  {
    const StaticEager seen(statically.model, [&] { statically.step(7); });
    EXPECT_EQ(record(statically.model.parameters()[0].grad()).digests, before);
    EXPECT_EQ(generator().state.offset, offset);
  }
  EXPECT_EQ(statically.step(4), eager.step(4));
}

const Change kChanges[] = {
    {.said = "input 0 of", .examples = 2},
    {.said = "input 0 of", .batch = "[S1]"},
    {.said = "requires no gradient any more", .requires_grad = false},
    {.said = "in another grad mode", .grad_mode = false},
    {.said = "is in another mode", .of_model = [](Block& model) { model.eval(); }},
    {.said = "requires no gradient any more",
     .of_model =
         [](Block& model) { model.attention->child("q_proj").parameters()[0].requires_grad_(false); }},
    {.said = "has other hooks",
     .of_model =
         [](Block& model) { model.attention->child("q_proj").register_forward_pre_hook([](auto&&...) {}); }},
    {.said = "a tensor of",
     .of_model =
         [](Block& model) {
           const auto weight = model.norm->parameters()[0].detach();
           model.norm->set_parameter("weight", parameter(redistribute(weight, {Shard{0}})));
         }},
};

// Catches: a change that nobody sees, and that runs as what was seen; one that is refused though it may run
// eagerly.
TEST(StaticEager, SeesWhatHasChanged) {
  const auto& c = kCases[0];
  for (const auto& change : kChanges) {
    SCOPED_TRACE(change.said);
    Stepper eager(c), statically(c), strict(c);
    const StaticEager seen(statically.model, [&] { statically.step(7); });
    const StaticEager errors(strict.model, [&] { strict.step(7); }, {.on_change = OnChange::kError});
    if (change.of_model != nullptr)
      for (auto* stepper : {&eager, &statically, &strict}) change.of_model(stepper->model);
    EXPECT_EQ(statically.step(8, change), eager.step(8, change));
    std::string why;
    for (const auto& [said, times] : seen.eager_calls()) why += said + "\n";
    EXPECT_NE(why.find(change.said), std::string::npos) << why;
    try {
      strict.step(8, change);
      ADD_FAILURE() << "nothing is said";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(change.said), std::string_view::npos) << error.what();
    }
  }
}

// Runs another op, or gives another constant, when it is told so.
struct Switch : nn::Module {
  Switch() { add_parameter("weight", {6}, at::kFloat); }
  at::Tensor forward(const nn::Tensors& inputs) override {
    const auto x = inputs[0] * parameter("weight");
    if (how == 1) return x.tanh();
    if (how == 2) return x.relu().relu();
    if (how == 3) return x.relu().view({2, 12}).view({4, 6});
    return x.softmax(how == 4 ? 0 : 1);
  }
  int how = 0;
};

// Catches: another op, one more, or another constant of an op, that runs as if it had been seen.
TEST(StaticEager, SeesOtherOps) {
  for (const int how : {1, 2, 3, 4}) {
    Switch model;
    set_values(model);
    const auto mesh = init_device_mesh({2}, {"dp"});
    parallelize(model, mesh, {});
    const auto step = [&] {
      model(distribute_tensor(normal_values({4, 6}, 1), mesh, {Replicate{}})).square().sum().backward();
    };
    const StaticEager seen(model, step, {.every_op = how == 4});
    EXPECT_NO_THROW(step());
    EXPECT_EQ(seen.static_calls(), 1);
    model.how = how;
    EXPECT_THROW(step(), Error) << how;
    model.how = 0;
    EXPECT_NO_THROW(step());
  }
}

// Catches: a row of another op, input or place than eager mode's, one that is missing.
TEST(StaticEager, ItsPlanRedistributesNothingImplicitly) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    Stepper stepper(c);
    const auto rows = StaticEager(stepper.model, [&] { stepper.step(7); }).plan();
    Case with_rows = c;
    with_rows.plan += to_string(rows);
    Stepper planned(with_rows);
    EXPECT_EQ(planned.step(8), stepper.step(8)) << to_string(rows);
    const auto& implicit = planned.mesh.comm->context->counters.redistributions;
    const auto before = implicit;
    planned.model(distribute_tensor(normal_values({4, 6, 8}, 8), planned.mesh, parse_placements(c.batch)));
    EXPECT_LE(implicit, before + 1) << to_string(rows);  // the mean's own
  }
}

// Catches: a kernel's own views that are taken for the program's: what norms runs eagerly.
TEST(StaticEager, KernelsThatViewAskForThemselves) {
  nn::LayerNorm model(6);
  set_values(model);
  const auto mesh = init_device_mesh({2}, {"dp"});
  parallelize(model, mesh, {});
  const auto step = [&] {
    model(distribute_tensor(normal_values({4, 6}, 1), mesh, {Shard{0}})).square().sum().backward();
  };
  const StaticEager seen(model, step);
  EXPECT_TRUE(seen.parts().at(0).is_local) << to_string(seen);
}

// Catches: modules that call a StaticEager which was never made.
TEST(StaticEager, OneThatIsRefusedLeavesTheModelAsItWas) {
  Stepper stepper(kCases[0]);
  const auto x = distribute_tensor(normal_values({4, 6, 8}, 7), stepper.mesh, {Replicate{}});
  const auto step = [&] { stepper.model(x).backward(); };
  const StaticEager last(*stepper.model.mlp, [&] { (*stepper.model.mlp)(x).sum().backward(); });
  EXPECT_THROW(StaticEager(stepper.model, step), Error);
  EXPECT_NO_THROW(step());
  const auto before = last.static_calls();
  (*stepper.model.mlp)(x).sum().backward();
  EXPECT_EQ(last.static_calls(), before + 1);
}

// Catches: trials in the record of whoever records the step.
TEST(StaticEager, WhatItTriesIsInNobodysRecord) {
  Stepper stepper(kCases[1]);
  const auto activities = std::make_shared<ActivityLog>();
  Timeline all;
  const auto x = distribute_tensor(normal_values({4, 6, 8}, 7), stepper.mesh, {Replicate{}});
  {
    const TimelineScope scope(all);
    const Recording recording(activities);
    const StaticEager seen(stepper.model, [&] { stepper.model(x).backward(); });
  }
  EXPECT_TRUE(all.empty()) << all.size() << " entries, the first of " << all[0].op;
  EXPECT_TRUE(activities->all().empty());
}

// Catches: gradients of gradients that end where static parts begin, in silence.
TEST(StaticEager, RefusesGradientsOfGradients) {
  Stepper stepper(kCases[0]);
  const StaticEager seen(stepper.model, [&] { stepper.step(7); });
  const auto x = parameter(distribute_tensor(normal_values({4, 6, 8}, 7), stepper.mesh, {Replicate{}}));
  EXPECT_THROW(at::Tensor(stepper.model(x)).backward({}, std::nullopt, true), Error);
}

// Catches: a plain model that is taken for one on ranks.
TEST(StaticEager, NeedsDTensors) {
  Block model;
  set_values(model);
  EXPECT_THROW(StaticEager(model, [] {}), Error);
}

}  // namespace
}  // namespace lockstep
