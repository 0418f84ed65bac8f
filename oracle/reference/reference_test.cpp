// SPDX-License-Identifier: Apache-2.0
// The reference model and optimizer by themselves: what their papers promise whatever the weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/stream/random_source.h"
#include "kernels/operators/dynamic_map.h"
#include "oracle/reference/blocks.h"
#include "oracle/reference/model.h"
#include "oracle/reference/update.h"

namespace lockstep::oracle {
namespace {

const ModelSizes kSizes = {.hidden = 12,
                           .layers = 2,
                           .heads = 4,
                           .kv_heads = 2,
                           .mlp = 7,
                           .vocabulary = 11,
                           .rope_base = 10000,
                           .norm_eps = 1e-5,
                           .dropout = 0};

class ReferenceTest : public testing::Test {
 protected:
  ReferenceTest() { manual_seed(3); }
  ~ReferenceTest() override { generator() = {}; }

  static double loss(ReferenceModel& model, const at::Tensor& tokens, const at::Tensor& targets) {
    return model.loss(tokens, targets).item<double>();
  }
};

// Catches: a loss that is no mean of logarithms of probabilities.
TEST_F(ReferenceTest, KnowsNothingWithoutAHead) {
  ReferenceModel model(kSizes, at::kDouble);
  model.init();
  model.parameters().back().second.detach().zero_();
  const auto tokens = at::arange(6).view({2, 3});
  EXPECT_NEAR(loss(model, tokens, tokens), std::log(11.0), 1e-14);
}

// Attention sees how far back a token stands, not where. Catches: a mask that lets the future in, positions
// that are added instead of turned.
TEST_F(ReferenceTest, AttentionIsCausalAndRelative) {
  ReferenceModel model(kSizes, at::kDouble);
  model.init();
  const auto one = [&](std::vector<int64_t> tokens, int64_t at) {
    // The loss of the one target that is asked for: -100 is ignored.
    auto targets = at::full({1, static_cast<int64_t>(tokens.size())}, -100, at::kLong);
    targets[0][at] = 5;
    return loss(model, at::tensor(tokens).view({1, -1}), targets);
  };
  EXPECT_EQ(one({1, 2, 3}, 1), one({1, 2, 7}, 1));
  EXPECT_NE(one({1, 2, 3}, 1), one({4, 2, 3}, 1));
  EXPECT_NE(one({1, 2, 3}, 2), one({2, 1, 3}, 2));
  EXPECT_NEAR(one({4, 4, 4}, 0), one({4, 4, 4, 4}, 3), 1e-13);
}

// Catches: first values that are not torch.nn's, drawn in another order, or not from the stream of the scope.
TEST_F(ReferenceTest, StartsFromTheStream) {
  ReferenceModel first(kSizes, at::kFloat), second(kSizes, at::kFloat);
  first.init();
  EXPECT_GT(generator().state.offset, 0U);
  manual_seed(3);
  second.init();
  for (size_t i = 0; i < first.parameters().size(); ++i) {
    const auto& [name, value] = first.parameters()[i];
    EXPECT_TRUE(at::equal(value, second.parameters()[i].second)) << name;
    if (value.dim() == 1) {
      EXPECT_TRUE(at::equal(value, at::ones_like(value))) << name;
    } else if (name != "embed_tokens.weight") {
      EXPECT_LE(value.abs().max().item<double>(), 1 / std::sqrt(value.size(1))) << name;
    }
  }
}

// AdamW's first step is the learning rate in the gradient's direction, after the decay. Catches: moments
// without correction, decay that passes through them, a step that is not counted.
TEST_F(ReferenceTest, AdamWsFirstStepHasTheGradientsSign) {
  auto p = at::tensor({1.0, -2.0, 4.0}, at::kDouble);
  ReferenceOptimizer optimizer({p}, {.lr = 0.1, .weight_decay = 0.5, .beta1 = 0.9, .beta2 = 0.95, .eps = 0});
  p.mutable_grad() = at::tensor({3.0, -1e-3, 1e5}, at::kDouble);
  optimizer.step();
  EXPECT_LT((p - at::tensor({0.85, -1.8, 3.7}, at::kDouble)).abs().max().item<double>(), 1e-12);
}

// Catches: momentum that starts damped, decay that is not part of the gradient.
TEST_F(ReferenceTest, SgdRolls) {
  auto p = at::tensor({1.0}, at::kDouble);
  ReferenceOptimizer optimizer({p},
                               {.update = Update::kSgd, .lr = 0.1, .weight_decay = 0.5, .momentum = 0.9});
  for (const double expected : {0.85, 0.5725}) {  // v = 1 + 0.5; then 0.9 v + 1 + 0.425
    p.mutable_grad() = at::tensor({1.0}, at::kDouble);
    optimizer.step();
    EXPECT_NEAR(p.item<double>(), expected, 1e-12);
  }
}

// Catches: a norm of one tensor, gradients that are scaled up.
TEST_F(ReferenceTest, ClipsByTheNormOfAll) {
  const auto a = at::zeros({1}, at::kDouble), b = at::zeros({2}, at::kDouble);
  a.mutable_grad() = at::tensor({2.0}, at::kDouble);
  b.mutable_grad() = at::tensor({3.0, 6.0}, at::kDouble);
  EXPECT_NEAR(clip_by_norm({a, b}, 100).item<double>(), 7, 1e-14);
  EXPECT_EQ(b.grad()[1].item<double>(), 6);
  clip_by_norm({a, b}, 3.5);
  EXPECT_NEAR(b.grad()[1].item<double>(), 3, 1e-5);
}

// Seven decades, each with twice the entries of the one below, at the means of as many equal parts of [1, 10]
// (of a map without signs twice as many), and 0 and 1. Catches: a frozen entry that is none of the paper's.
TEST_F(ReferenceTest, TheDynamicMapIsThePapers) {
  for (const bool is_signed : {false, true}) {
    std::vector<double> map{0, 1};
    for (int decade = 0; decade < 7; ++decade) {
      const int parts = (is_signed ? 1 : 2) << decade;
      for (int i = 0; i < parts; ++i) {
        const double from = 0.1 + 0.9 * i / parts, to = 0.1 + 0.9 * (i + 1) / parts;
        map.push_back((from + to) / 2 * std::pow(10, decade - 6));
        if (is_signed) map.push_back(-map.back());
      }
    }
    std::sort(map.begin(), map.end());
    const auto& frozen = dynamic_map(is_signed);
    ASSERT_EQ(map.size(), frozen.size());
    for (size_t i = 0; i < map.size(); ++i)
      EXPECT_LE(std::abs(frozen[i] - map[i]), 4 * 0x1p-24 * std::abs(map[i])) << i;
  }
}

// Catches: tiles that run on behind an edge or into the next matrix, a scale that is not the greatest
// magnitude, codes that come back as more than half a step away.
TEST_F(ReferenceTest, TilesStandAlone) {
  const auto values = at::arange(2 * 5 * 3).view({2, 5, 3}).sub(14).div(8).to(at::kFloat);
  const auto tiles = in_tiles(values, true, 2);
  EXPECT_EQ(tiles.scales.sizes(), at::IntArrayRef({2, 3, 2}));
  EXPECT_EQ(tiles.scales[1][2][0].item<float>(), values[1][4].slice(0, 0, 2).abs().max().item<float>());
  EXPECT_EQ(tiles.scales[0][0][1].item<float>(), values[0][0][2].abs().item<float>());
  const auto back = out_of_tiles(tiles, true, 2);
  EXPECT_LE((back - values).abs().max().item<double>(), 0.02 * values.abs().max().item<double>());
  EXPECT_TRUE(in_tiles(back, true, 2).codes.equal(tiles.codes));
}

// Of a matrix with orthogonal rows the direction is the matrix, up to what five iterations leave. Catches: a
// coefficient, a norm, an iteration that is wrong.
TEST_F(ReferenceTest, TheDirectionIsOrthogonal) {
  const auto gradient = at::randn({6, 9}, at::detail::createCPUGenerator(4));
  for (const auto& matrix : {gradient, gradient.t().contiguous()}) {
    const auto direction = orthogonal(matrix, {3.4445, -4.7750, 2.0315}, 5, 1e-7, true);
    const auto singular = at::linalg_svdvals(direction);
    EXPECT_GT(singular.min().item<double>(), 0.3);
    EXPECT_LT(singular.max().item<double>(), 1.3);
    EXPECT_GT(at::sum(direction * matrix).item<double>(), 0);
  }
}

}  // namespace
}  // namespace lockstep::oracle
