// SPDX-License-Identifier: Apache-2.0
// Optimizers on distributed parameters, against the same steps on plain ones: bit by bit, for every
// placement.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/optim/optimizer.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep::optim {
namespace {

// Uneven and empty shards, both dimensions, two mesh dimensions on one tensor dimension, and a replicated
// one.
const char* const kPlacements[] = {"[S0,R]", "[S1,S0]", "[S0,S0]", "[R,R]", "[R,S1]"};

at::Tensor normal(uint64_t seed) {
  return at::randn({7, 3}, at::detail::createCPUGenerator(seed));
}

struct Models {
  MeshInWorld mesh = init_device_mesh({2, 4}, {"dp", "tp"});
  Tensors plain, distributed;

  Models() {
    for (const char* text : kPlacements) {
      plain.push_back(normal(plain.size()).requires_grad_());
      distributed.push_back(
          parameter(distribute_tensor(plain.back().detach(), mesh, parse_placements(text))));
    }
  }
  // The parameter of number 1 gets none on odd steps, so that step counts differ.
  void set_gradients(uint64_t step, const std::function<at::Tensor(uint64_t)>& values = normal) {
    for (size_t i = 0; i < plain.size(); ++i) {
      const auto gradient = i == 1 && step % 2 == 1 ? at::Tensor() : values(100 + step * 10 + i);
      plain[i].mutable_grad() = gradient;
      distributed[i].mutable_grad() =
          gradient.defined() ? distribute_tensor(gradient, mesh, placements(distributed[i])) : gradient;
    }
  }
  void expect_equal(const char* what) const {
    for (size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(at::equal(plain[i].detach(), full_tensor(distributed[i]).detach()))
          << what << " " << kPlacements[i];
  }
};

template <class Optimizer, class Options>
void expect_same_steps(const Options& options, const char* what) {
  Models models;
  Optimizer plain(models.plain, options), distributed(models.distributed, options);
  for (uint64_t step = 0; step < 4; ++step) {
    models.set_gradients(step);
    plain.step();
    distributed.step();
  }
  models.expect_equal(what);
}

// Catches: a scalar of the step that differs between ranks, a state that is not placed as its parameter, an
// op that adds across elements.
TEST(Distributed, AdamWIsThePlainOne) {
  expect_same_steps<AdamW>(AdamWOptions{.lr = 1e-2}, "foreach");
  expect_same_steps<AdamW>(AdamWOptions{.lr = 1e-2, .weight_decay = 0}, "no decay");
  expect_same_steps<AdamW>(AdamWOptions{.lr = 1e-2, .fused = true}, "fused");
}

TEST(Distributed, SgdIsThePlainOne) {
  expect_same_steps<Sgd>(SgdOptions{.lr = 0.1}, "plain");
  expect_same_steps<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1},
                         "momentum");
  expect_same_steps<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}, "nesterov");
  expect_same_steps<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .fused = true}, "fused");
}

// Small integers: any order of the sum is exact, so the norm and the scaled gradients must be equal in bits.
// Catches: a shard counted twice, or a replica, or one forgotten; a norm of another order.
TEST(Distributed, ClipGradNormSeesEveryElementOnce) {
  for (const double order : {1.0, 2.0, 3.0, HUGE_VAL}) {
    Models models;
    models.set_gradients(0, [](uint64_t seed) { return (normal(seed) * 4).round(); });
    std::vector<at::Tensor> all;
    for (const auto& p : models.plain) all.push_back(p.grad().flatten());
    const auto norm = at::linalg_vector_norm(at::cat(all).to(at::kDouble), order).item<double>();
    const auto plain = clip_grad_norm_(models.plain, 1.5, order),
               distributed = clip_grad_norm_(models.distributed, 1.5, order, true);
    EXPECT_EQ(plain.item<float>(), distributed.item<float>());
    EXPECT_FLOAT_EQ(plain.item<float>(), static_cast<float>(norm));
    for (size_t i = 0; i < models.plain.size(); ++i)
      EXPECT_TRUE(at::equal(models.plain[i].grad(), full_tensor(models.distributed[i].grad())))
          << kPlacements[i] << " order " << order;
  }
}

// Catches: the largest of no elements; a norm in 16 bits; a norm where there is no gradient.
TEST(Distributed, NormsOfEmptyAndOfShortGradients) {
  const auto mesh = init_device_mesh({2});
  for (const double order : {1.0, 2.0, HUGE_VAL}) {
    Tensors parameters;
    for (const int64_t rows : {0, 1, 3}) {
      parameters.push_back(
          parameter(distribute_tensor(at::zeros({rows, 2}, at::kBFloat16), mesh, {Shard{0}})));
      parameters.back().mutable_grad() =
          distribute_tensor(at::full({rows, 2}, 300, at::kBFloat16), mesh, {Shard{0}});
    }
    const double elements = 8, norm = std::isinf(order) ? 300 : 300 * std::pow(elements, 1 / order);
    EXPECT_FLOAT_EQ(full_tensor(clip_grad_norm_(parameters, 1e9, order)).item<float>(),
                    static_cast<float>(norm));
    EXPECT_EQ(full_tensor(clip_grad_norm_({parameters[0]}, 1e9, order)).item<float>(), 0);
    parameters[2].grad().fill_(HUGE_VAL);
    EXPECT_THROW(clip_grad_norm_(parameters, 1, order, true), Error);
  }
}

// Catches: gradients that are scaled by what is no number, though that is to be an error; an order that is
// none.
TEST(Distributed, NormsThatAreNoneAreErrors) {
  Models models;
  models.set_gradients(0);
  models.distributed[0].grad().fill_(NAN);
  const auto before = full_tensor(models.distributed[1].grad()).clone();
  EXPECT_THROW(clip_grad_norm_(models.distributed, 1, 2, true), Error);
  EXPECT_TRUE(at::equal(full_tensor(models.distributed[1].grad()), before));
  EXPECT_TRUE(full_tensor(clip_grad_norm_(models.distributed, 1)).isnan().item<bool>());
  EXPECT_THROW(clip_grad_norm_(models.distributed, 1, 0), Error);
}

// Catches: zeros that are made of what was there, which a NaN, an infinity or a negative number shows.
TEST(Distributed, ZeroGradLeavesZeros) {
  Models models;
  models.set_gradients(0, [](uint64_t) {
    return at::tensor({NAN, HUGE_VALF, -1.0F}).expand({7, 3}).contiguous();
  });
  for (const auto* parameters : {&models.plain, &models.distributed}) {
    zero_grad(*parameters, /*set_to_none=*/false);
    for (const auto& p : *parameters) {
      const auto left = is_dtensor(p) ? full_tensor(p.grad()) : p.grad();
      EXPECT_TRUE(left.contiguous().view(at::kInt).equal(at::zeros({7, 3}, at::kInt)));
    }
  }
}

// Catches: a step on a gradient that some hook left plain, or placed otherwise: it would be another update.
TEST(Distributed, MisplacedGradientsAreErrors) {
  Models models;
  AdamW optimizer(models.distributed);
  models.distributed[0].mutable_grad() = distribute_tensor(normal(1), models.mesh, parse_placements("[R,R]"));
  try {
    optimizer.step();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[R,R], the parameter f32[7x3]@[S0,R]"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(clip_grad_norm_(models.distributed, 1), Error);
}

}  // namespace
}  // namespace lockstep::optim
