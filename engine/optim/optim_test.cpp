// SPDX-License-Identifier: Apache-2.0
// engine/optim on plain tensors against torch::optim, bit by bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>

#include "engine/optim/optimizer.h"
#include "engine/values/error.h"

namespace lockstep::optim {
namespace {

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.detach().contiguous(), y = b.detach().contiguous();
  ASSERT_EQ(x.sizes(), y.sizes());
  EXPECT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()), 0);
}

// Three shapes; the second parameter has no gradient on odd steps, so that their step counts differ.
struct Model {
  Tensors parameters;

  Model() {
    for (const int64_t n : {5, 12, 1}) {
      auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(n));
      parameters.push_back(at::randn({n, 3}, generator).requires_grad_());
    }
  }
  void set_gradients(int64_t step) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * step) + i);
      auto& gradient = parameters[i].mutable_grad();
      gradient = i == 1 && step % 2 == 1 ? at::Tensor() : at::randn(parameters[i].sizes(), generator);
    }
  }
};

template <class Ours, class Theirs>
void expect_same_run(Model& mine, Model& torchs, Ours&& ours, Theirs&& theirs) {
  for (int64_t step = 0; step < 5; ++step) {
    mine.set_gradients(step);
    torchs.set_gradients(step);
    ours.step();
    theirs.step();
    for (size_t i = 0; i < mine.parameters.size(); ++i)
      expect_same_bits(mine.parameters[i], torchs.parameters[i]);
  }
}

// Catches: another order of operations, a shared step count, decay after the update, eps inside the root.
TEST(AdamW, IsTorchsBitwise) {
  for (const double decay : {0.0, 0.1}) {
    Model mine, torchs;
    expect_same_run(
        mine, torchs, AdamW(mine.parameters, {.lr = 1e-2, .beta2 = 0.95, .weight_decay = decay}),
        torch::optim::AdamW(torchs.parameters,
                            torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).weight_decay(decay)));
  }
}

// One op, and the _foreach_ ops, on the same gradients from one step to another.
template <class Optimizer, class Options>
void expect_fused_is_close(Options options, int64_t from, int64_t to, double bound) {
  Model mine, fused;
  Optimizer a(mine.parameters, options);
  options.fused = true;
  Optimizer b(fused.parameters, options);
  for (int64_t step = from; step < to; ++step) {
    mine.set_gradients(step);
    fused.set_gradients(step);
    a.step();
    b.step();
  }
  for (size_t i = 0; i < mine.parameters.size(); ++i)
    EXPECT_LT((mine.parameters[i] - fused.parameters[i]).abs().max().item<double>(), bound);
}

// Catches: steps that are not counted (the correction of bias would be that of another step).
TEST(AdamW, FusedIsCloseAndCountsSteps) {
  expect_fused_is_close<AdamW>(AdamWOptions{.lr = 1e-2}, 0, 4, 1e-6);
}

// Catches: momentum that starts at zero and is damped, nesterov's term with the wrong sign.
TEST(Sgd, IsTorchsBitwise) {
  for (const auto& o : {SgdOptions{.lr = 0.1}, SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
                        SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}) {
    Model mine, torchs;
    expect_same_run(mine, torchs, Sgd(mine.parameters, o),
                    torch::optim::SGD(torchs.parameters, torch::optim::SGDOptions(o.lr)
                                                             .momentum(o.momentum)
                                                             .dampening(o.dampening)
                                                             .weight_decay(o.weight_decay)
                                                             .nesterov(o.nesterov)));
  }
  EXPECT_THROW(Sgd({}, {.nesterov = true}), Error);
}

// Catches: momentum that begins anew, or for a parameter whose first step is a later one does not begin.
TEST(Sgd, FusedIsClose) {
  for (const auto& o :
       {SgdOptions{.lr = 0.1, .weight_decay = 0.01}, SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
        SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}})
    expect_fused_is_close<Sgd>(o, 1, 6, 1e-5);
}

// Catches: libtorch's kernel for 16 bits, which leaves what fills a vector as it is, taken at its word.
TEST(Sgd, FusedIsNotFor16Bits) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    auto parameter = at::ones({40}, dtype).requires_grad_();
    parameter.mutable_grad() = at::ones({40}, dtype);
    auto beside = at::ones({40}).requires_grad_();
    beside.mutable_grad() = at::ones({40});
    Sgd sgd({beside, parameter}, {.lr = 1, .momentum = 0.9, .fused = true});
    EXPECT_THROW(sgd.step(), Error);
    EXPECT_TRUE(at::equal(beside.detach(), at::ones({40})) && !sgd.momentum()[0].defined());
    EXPECT_TRUE(at::equal(parameter.detach(), at::ones({40}, dtype)));
    at::_fused_sgd_({parameter.detach()}, {parameter.grad()}, {}, 0, 0, 1, 0, false, false, false);
    EXPECT_FALSE(at::equal(parameter.detach(), at::zeros({40}, dtype))) << "mended: let Sgd step so";
  }
}

// Catches: a norm of norms that forgets one, clipping that scales up, a half-precision sum.
TEST(ClipGradNorm, ScalesToTheLimit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    auto a = at::zeros({2}, dtype).requires_grad_(), b = at::zeros({1}, dtype).requires_grad_();
    auto unused = at::zeros({4}, dtype).requires_grad_();
    a.mutable_grad() = at::tensor({2.0, 3.0}).to(dtype);
    b.mutable_grad() = at::tensor({6.0}).to(dtype);
    EXPECT_FLOAT_EQ(clip_grad_norm_({a, unused, b}, 100).item<float>(), 7);
    EXPECT_EQ(b.grad().item<float>(), 6);
    clip_grad_norm_({a, unused, b}, 3.5);
    EXPECT_NEAR(b.grad().item<float>(), 3, 0.01);
    zero_grad({a, b});
    EXPECT_FALSE(a.grad().defined());
  }
}

}  // namespace
}  // namespace lockstep::optim
