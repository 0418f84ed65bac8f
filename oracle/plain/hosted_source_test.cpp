// SPDX-License-Identifier: Apache-2.0
// A hosted source is the source itself, whatever it draws.
#include "oracle/plain/hosted_source.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

using Draw = std::function<at::Tensor()>;

const std::pair<const char*, Draw> kDraws[] = {
    {"rand",
     [] {
       return at::rand({5, 7});
     }},
    {"random_", [] { return at::zeros({9}, at::kLong).random_(-3, 8); }},
    {"bernoulli",
     [] {
       return at::zeros({4, 6}).bernoulli_(at::full({4, 6}, 0.4));
     }},
    {"normal", [] { return at::normal(at::arange(6, at::kFloat), at::full({6}, 0.5)); }},
    {"normal of means", [] { return at::normal(at::arange(6, at::kFloat), 0.5); }},
    {"normal of spreads", [] { return at::normal(0.25, at::arange(6, at::kFloat)); }},
    {"dropout",
     [] {
       return at::dropout(at::ones({3, 50}), 0.3, true);
     }},
    {"rrelu", [] { return at::rrelu(at::arange(40, at::kFloat).sub(20), 0.1, 0.4, true); }},
    {"multinomial", [] { return at::multinomial(at::arange(1, 9, at::kFloat), 20, true); }},
    {"randperm", [] { return at::randperm(33); }},
};

struct Drawn {
  at::Tensor values;
  RandomState after;
};

Drawn drawn(RandomSource& source, const Draw& draw) {
  const ForkRng keep;
  generator() = {{11, 4}, {2, 512}};
  const RandomScope scope(source);
  auto values = draw();
  return {values, generator().state};
}

// Catches: a number that is lost on the way, or drawn by another source; a stream left elsewhere.
TEST(HostedSourceTest, DrawsWhatTheSourceDraws) {
  SimulatedSource simulated;
  HostedSource hosted(simulated);
  for (const auto& [name, draw] : kDraws) {
    const auto mine = drawn(hosted, draw), its = drawn(simulated, draw);
    EXPECT_TRUE(mine.values.equal(its.values)) << name;
    EXPECT_EQ(mine.after, its.after) << name;
    EXPECT_NE(mine.after.offset, 4) << name << " drew nothing";
  }
}

// Where it cannot bring a tensor to the host, as one without memory, the source is not asked. Catches:
// probabilities that the source is handed where they lie.
TEST(HostedSourceTest, BringsProbabilitiesToTheHost) {
  struct Asked : SimulatedSource {
    bool asked = false;
    at::Tensor bernoulli(const at::Tensor& self, const at::Tensor&, Generator&) override {
      asked = true;
      return self;
    }
  } source;
  HostedSource hosted(source);
  Generator now;
  const auto here = at::zeros({2}), elsewhere = at::empty({2}, at::kMeta);
  EXPECT_THROW(hosted.bernoulli(here, elsewhere, now), c10::Error);
  EXPECT_THROW(hosted.bernoulli(elsewhere, here, now), c10::Error);
  EXPECT_FALSE(source.asked);
  hosted.bernoulli(here, here, now);
  EXPECT_TRUE(source.asked);
}

}  // namespace
}  // namespace lockstep::oracle
