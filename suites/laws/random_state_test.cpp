// SPDX-License-Identifier: Apache-2.0
// The generator's state between draws on DTensors and on the oracle's plain ones: got, set, forked; 16 bytes
// that either side draws on from.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "generators/cases/programs.h"
#include "oracle/ownership/compare.h"
#include "oracle/random/random_simulation.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

using Draw = std::function<at::Tensor(const at::Tensor&)>;
struct Operator {
  const char* name;
  Draw draw;
};

// Each kind of launch: strided grids of one and two words, vectors, consecutive elements, keys, samples.
const Operator kOperators[] = {
    {"uniform_", [](const at::Tensor& x) { return at::empty_like(x).uniform_(-1, 2); }},
    {"normal_", [](const at::Tensor& x) { return at::empty_like(x).normal_(1, 2); }},
    {"randint_like", [](const at::Tensor& x) { return at::randint_like(x, int64_t{1} << 20); }},
    {"random_",
     [](const at::Tensor& x) { return at::empty_like(x, x.options().dtype(at::kLong)).random_(); }},
    {"bernoulli", [](const at::Tensor& x) { return at::bernoulli(x); }},
    {"native_dropout", [](const at::Tensor& x) { return std::get<1>(at::native_dropout(x, 0.3, true)); }},
    {"multinomial", [](const at::Tensor& x) { return at::multinomial(x, 3, true); }},
};

class StreamState : public testing::Test {
 protected:
  StreamState() {
    generator().device = {1, 256};
    manual_seed(77);
    lockstep::rand({41, 3}, mesh_, {Replicate{}, Shard{0}});  // from somewhere within the stream
  }
  ~StreamState() override { generator() = {}; }

  bool equal(const at::Tensor& a, const at::Tensor& b) const {
    return oracle::compare(is_dtensor(a) ? full_tensor(a) : a, is_dtensor(b) ? full_tensor(b) : b).equal();
  }

  MeshInWorld mesh_ = init_device_mesh({2, 3});
  at::Tensor plain_ = at::arange(1, 61 * 47 + 1, at::kFloat).div(61 * 47 + 1).view({61, 47});
  at::Tensor placed_ = distribute_tensor(plain_, mesh_, {Shard{1}, InterleavedShard{0, 2}});
};

// Catches: a state that leaves out the offset or the seed, a draw that depends on more than the state, one
// that advances by another amount the second time.
TEST_F(StreamState, ThatIsSetDrawsTheSameAgain) {
  for (const auto& [name, draw] : kOperators) {
    const auto before = get_rng_state();
    const auto first = draw(placed_);
    const auto after = get_rng_state();
    EXPECT_NE(after, before) << name;
    EXPECT_FALSE(equal(first, draw(placed_))) << name << " draws the same twice";
    set_rng_state(before);
    EXPECT_TRUE(equal(first, draw(placed_))) << name;
    EXPECT_EQ(get_rng_state(), after) << name;
  }
}

// Catches: a fork that leaks its draws, or does not begin where it was made.
TEST_F(StreamState, OfAForkEndsWithIt) {
  for (const auto& [name, draw] : kOperators) {
    const auto before = get_rng_state();
    at::Tensor within;
    {
      const ForkRng fork;
      within = draw(placed_);
      draw(placed_);
      manual_seed(5);
    }
    EXPECT_EQ(get_rng_state(), before) << name;
    EXPECT_TRUE(equal(within, draw(placed_))) << name;
  }
}

// Catches: two streams, one of DTensors and one of plain tensors; an advance that differs between them.
TEST_F(StreamState, IsOneForPlainAndDistributedTensors) {
  oracle::SimulatedSource source;
  for (const auto& [name, draw] : kOperators) {
    const auto before = get_rng_state();
    const auto first = draw(placed_), second = draw(placed_);
    const auto after = get_rng_state();
    set_rng_state(before);
    const RandomScope scope(source);
    EXPECT_TRUE(equal(first, draw(plain_))) << name;
    EXPECT_TRUE(equal(second, draw(placed_))) << name << " after a plain draw";
    EXPECT_EQ(get_rng_state(), after) << name;
  }
}

// Catches: a case that leaves something of its stream behind for the next.
TEST_F(StreamState, OfOneCaseIsNotTheNexts) {
  LockstepEngine engine;
  const auto& points = generators::covering_points();
  const auto c = generators::random_point_case(generators::Random(1), points[0]);
  const auto first = engine.run(c, false);
  for (size_t i = 1; i < 20; ++i) {
    engine.run(generators::random_point_case(generators::Random(1).split(i), points[i]), false);
    const auto again = engine.run(c, false);
    EXPECT_EQ(again.random_after, first.random_after);
    for (size_t v = 0; v < first.values.size(); ++v)
      for (size_t p = 0; p < first.values[v].locals.size(); ++p)
        EXPECT_TRUE(oracle::compare(first.values[v].locals[p], again.values[v].locals[p]).equal());
  }
}

}  // namespace
}  // namespace lockstep::suites
