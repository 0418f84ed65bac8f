// SPDX-License-Identifier: Apache-2.0
// What tests of this folder share: a small model on a mesh of two ranks, of which it is known what moves.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/nn/distribute.h"
#include "engine/nn/layers.h"
#include "engine/random/random.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {

// fc1 is cut by columns, and what it gives goes from there to rows, which fc2 takes as they are. Of f32,
// x[8x4]: forward, 96 bytes move by all_to_all, between the two modules; backward as many there, and the
// terms of the gradient of fc2's weight, 96 bytes each, by all_reduce.
struct Net : nn::Module {
  Net() {
    fc1 = add_child("fc1", std::make_shared<nn::Linear>(4, 6, false));
    fc2 = add_child("fc2", std::make_shared<nn::Linear>(6, 4, false));
  }
  at::Tensor forward(const nn::Tensors& in) override {
    const auto columns = (*fc1)(in.at(0));
    return (*fc2)(is_dtensor(columns) ? redistribute(columns, {Shard{0}}) : columns);
  }
  std::shared_ptr<nn::Linear> fc1, fc2;
};

inline MeshInWorld two_ranks(WorldPtr world = nullptr) {
  return init_device_mesh({2}, {"tp"}, std::move(world));
}

inline void place(Net& net, const MeshInWorld& mesh) {
  distribute_module(net, mesh, {{"fc1.weight", {Shard{0}}}, {"fc2.weight", {Replicate{}}}});
  manual_seed(3);
  nn::reset_parameters(net);
}

inline at::Tensor rows(const MeshInWorld& mesh) {
  return distribute_tensor(ramp({8, 4}), mesh, {Replicate{}});
}

inline void step(Net& net, const at::Tensor& x) {
  const auto y = net(x);
  (y * y).sum().backward();
}

}  // namespace lockstep
