// SPDX-License-Identifier: Apache-2.0
// Faults in what random ops make of a draw: each once in the engine, once in the oracle's plain run. In code
// that both shared, none of them would be found.
#include <ATen/ATen.h>

#include "engine/random/draw.h"
#include "oracle/random/random_simulation.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using oracle::SimulatedSource;

template <class Source>
std::unique_ptr<RandomSource> made() {
  return std::make_unique<Source>();
}

// (x * m) / (1 - p) in the accumulation type: often one roundoff away.
at::Tensor divided(const at::Tensor& x, const at::Tensor& keep, double p) {
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return x.to(wide).mul(keep).div(at::full({}, 1.0 - p, at::TensorOptions(wide))).to(x.scalar_type());
}

// The end of a range of several integers, one too early.
std::optional<int64_t> short_end(int64_t from, std::optional<int64_t> to) {
  return to && *to - 1 > from ? *to - 1 : to;
}

struct OtherSide : SimulatedSource {
  at::Tensor bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) override {
    return SimulatedSource::bernoulli(self, p, now).eq(0).to(at::kFloat);
  }
};
struct Threshold : SimulatedSource {
  at::Tensor rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                   Generator& now) override {
    SimulatedSource::rrelu(input.sub(0.5), noise, lower, upper, now);
    return input.mul(noise).contiguous();
  }
};
struct Least : SimulatedSource {
  at::Tensor multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                         Generator& now) override {
    return SimulatedSource::multinomial(weights.neg(), samples, replacement, now);
  }
};
struct Short : SimulatedSource {
  void integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) override {
    SimulatedSource::integers(out, from, short_end(from, to), now);
  }
};
struct OtherScale : SimulatedSource {
  Dropped dropout(const at::Tensor& input, double p, Generator& now) override {
    auto result = SimulatedSource::dropout(input, p, now);
    if (p > 0 && p < 1) result.output.copy_(divided(input, result.mask, 1 - p));
    return result;
  }
};

Drawing bernoulli_other_side() {
  return Drawing{
      .bernoulli = [](const at::Tensor& u, const at::Tensor& p) { return u.ge(p.to(u.scalar_type())); }};
}

Drawing rrelu_threshold() {
  return Drawing{.rrelu = [](const at::Tensor& input, const at::Tensor& slopes) {
    return rrelu_noise(input.sub(0.5), slopes);
  }};
}

Drawing multinomial_least() {
  return Drawing{.multinomial = [](const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                                   bool replacement) {
    return multinomial_pick(weights.neg(), drawn, samples, replacement);
  }};
}

Drawing range_short() {
  return Drawing{.integers = [](c10::ScalarType dtype, int64_t from, std::optional<int64_t> to) {
    return integer_range(dtype, from, short_end(from, to));
  }};
}

Drawing dropout_divides() {
  return {.dropout = divided};
}

}  // namespace

std::vector<Fault> operator_faults() {
  return {
      {61, "bernoulli-other-side", "K12", "bernoulli_(Tensor) is 1 where u >= P", "random", 300, 1,
       mentions("bernoulli"), with_drawing(bernoulli_other_side)},
      {62, "rrelu-threshold", "K12", "rrelu's slopes reach up to inputs of 0.5", "random", 500, 1,
       mentions("rrelu"), with_drawing(rrelu_threshold)},
      {63, "multinomial-least", "K12", "multinomial takes the least ratio", "random", 500, 1,
       mentions("multinomial"), with_drawing(multinomial_least)},
      {64, "range-short", "K12", "random_ never draws the last integer of a range", "random", 300, 1,
       mentions("random randint"), with_drawing(range_short)},
      {65, "dropout-divides", "K12", "dropout divides by 1 - p, where stock multiplies", "random", 500, 1,
       mentions("dropout"), with_drawing(dropout_divides)},
      {66, "oracle-bernoulli-other-side", "K12", "in the oracle, bernoulli_(Tensor) is 1 where u > P",
       "random", 300, 1, mentions("bernoulli"), with_plain_source(made<OtherSide>)},
      {67, "oracle-rrelu-threshold", "K12", "in the oracle, rrelu's slopes reach up to inputs of 0.5",
       "random", 500, 1, mentions("rrelu"), with_plain_source(made<Threshold>)},
      {68, "oracle-multinomial-least", "K12", "in the oracle, multinomial takes the least ratio", "random",
       500, 1, mentions("multinomial"), with_plain_source(made<Least>)},
      {69, "oracle-range-short", "K12", "in the oracle, random_ never draws the last integer of a range",
       "random", 300, 1, mentions("random randint"), with_plain_source(made<Short>)},
      {70, "oracle-dropout-scale", "K12", "in the oracle, dropout scales by 1 / p", "random", 500, 1,
       mentions("dropout"), with_plain_source(made<OtherScale>)},
  };
}

}  // namespace lockstep::suites::plant
