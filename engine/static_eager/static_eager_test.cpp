// SPDX-License-Identifier: Apache-2.0
// That static eager has the bits of eager mode, or says that it cannot.
#include "engine/static_eager/static_eager.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/fsdp/testing.h"
#include "engine/nn/blocks.h"
#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/digest.h"
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

struct Stepper {
  Stepper(const Case& c, const WorldPtr& world) : mesh(init_device_mesh(c.sizes, c.dims, world)) {
    set_values(model);
    parallelize(model, mesh, parse_plan(c.plan));
    batch = parse_placements(c.batch);
  }
  // Digests of the loss, the gradients of x and of all parameters on the hosted ranks.
  std::vector<Digest> step(uint64_t seed) {
    manual_seed(seed);
    model.zero_grad();
    auto x = parameter(distribute_tensor(normal_values({4, 6, 8}, seed), mesh, batch));
    const auto loss = model(x);
    loss.backward();
    std::vector<Digest> all = record(loss).digests;
    const auto add = [&](const at::Tensor& gradient) {
      const auto digests = record(gradient).digests;
      all.insert(all.end(), digests.begin(), digests.end());
    };
    add(x.grad());
    for (const auto& each : model.parameters()) add(each.grad());
    return all;
  }
  MeshInWorld mesh;
  Block model;
  Placements batch;
};

// Catches: what a rank has taken for the whole, sums that miss a redistribution, gradients that are added up in
// another order, random numbers drawn twice, a trial that leaves gradients or random state changed.
TEST(StaticEager, HasTheBitsOfEagerMode) {
  for (const auto& c : kCases)
    for (const bool every_op : {false, true}) {
      SCOPED_TRACE(c.name);
      Stepper eager(c, nullptr), statically(c, nullptr);
      const StaticEager still(statically.model, [&] { statically.step(7); }, {OnChange::kError, every_op});
      for (const uint64_t seed : {7, 8, 9}) EXPECT_EQ(statically.step(seed), eager.step(seed)) << to_string(still);
      EXPECT_GE(still.static_calls(), 3) << to_string(still);
      EXPECT_TRUE(still.eager_calls().empty());
    }
}

}  // namespace
}  // namespace lockstep
