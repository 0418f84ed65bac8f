// SPDX-License-Identifier: Apache-2.0
// What tests of fully_shard share: small models, and their parameters and gradients compared in bits.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/fsdp/fully_shard.h"
#include "engine/nn/distribute.h"
#include "engine/nn/layers.h"
#include "engine/random/random.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"

namespace lockstep {

using nn::Tensors;

// y = norm(x + b(tanh(a(x)))): two linears, one with a bias.
struct Block : nn::Module {
  explicit Block(int64_t size) {
    norm = add_child("norm", std::make_shared<nn::RMSNorm>(size));
    a = add_child("a", std::make_shared<nn::Linear>(size, 2 * size + 1));
    b = add_child("b", std::make_shared<nn::Linear>(2 * size + 1, size, false));
  }
  at::Tensor forward(const Tensors& in) override {
    const auto& x = in.at(0);
    return (*norm)(x + (*b)((*a)(x).tanh()));
  }
  std::shared_ptr<nn::RMSNorm> norm;
  std::shared_ptr<nn::Linear> a, b;
};

struct Net : nn::Module {
  explicit Net(int64_t size = 6, int64_t count = 2) {
    first = add_child("first", std::make_shared<nn::Linear>(5, size));
    blocks = add_child("blocks", std::make_shared<nn::Sequential>());
    for (int64_t i = 0; i < count; ++i) {
      each.push_back(std::make_shared<Block>(size));
      blocks->push_back(each.back());
    }
    last = add_child("last", std::make_shared<nn::Linear>(size, 3, false));
  }
  at::Tensor forward(const Tensors& in) override { return (*last)((*blocks)((*first)(in.at(0)))); }
  std::shared_ptr<nn::Linear> first, last;
  std::shared_ptr<nn::Sequential> blocks;
  std::vector<std::shared_ptr<Block>> each;
};

inline at::Tensor values(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

inline void init(nn::Module& module) {
  manual_seed(3);
  nn::reset_parameters(module);
}

inline FSDPModule shard(Net& net, const MeshInWorld& mesh, const FullyShardOptions& options = {}) {
  for (const auto& block : net.each) fully_shard(*block, mesh, options);
  auto root = fully_shard(net, mesh, options);
  init(net);
  return root;
}

inline void replicate(Net& net, const MeshInWorld& mesh) {
  nn::distribute_module(net, mesh, {});
  init(net);
}

inline at::Tensor batch(const MeshInWorld& mesh, uint64_t seed, int64_t each = 2) {
  return distribute_tensor(values({each * mesh.mesh.size(), 5}, seed), mesh,
                           Placements(static_cast<size_t>(mesh.mesh.ndim()), Shard{0}));
}

inline at::Tensor loss_of(const at::Tensor& output) {
  return (output * output).sum();
}

inline ::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || !same_bits(a, b)) return ::testing::AssertionFailure() << a << "\nnot\n" << b;
  return ::testing::AssertionSuccess();
}

inline void expect_same_parameters(const nn::Module& a, const nn::Module& b) {
  const auto of_a = a.named_parameters(), of_b = b.named_parameters();
  ASSERT_EQ(of_a.size(), of_b.size());
  for (size_t i = 0; i < of_a.size(); ++i) {
    SCOPED_TRACE(of_a[i].first);
    const auto &x = of_a[i].second, &y = of_b[i].second;
    EXPECT_TRUE(same(full_tensor(x.detach()), full_tensor(y.detach())));
    ASSERT_EQ(x.grad().defined(), y.grad().defined());
    if (x.grad().defined()) {
      EXPECT_TRUE(same(full_tensor(x.grad()), full_tensor(y.grad())));
    }
  }
}

inline bool is_cut(const nn::Module& module) {
  for (const auto& [path, parameter] : module.named_parameters())
    if (to_string(placements(parameter)).find('G') == std::string::npos) return false;
  return true;
}

}  // namespace lockstep
