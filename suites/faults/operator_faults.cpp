// SPDX-License-Identifier: Apache-2.0
// Faults in what random ops make of a draw: each once in the engine, once in the oracle's plain run. In code
// that both shared, none of them would be found.
#include <ATen/ATen.h>

#include "engine/random/draw.h"
#include "oracle/random/random_simulation.h"
#include "suites/faults/planters.h"

namespace lockstep::suites::plant {
namespace {

using oracle::SimulatedSource;

EnginePtr drawing_by(Drawing (*make)()) {
  return with_drawing(make);
}

template <class Source>
EnginePtr judged_by() {
  return with_plain_source([]() -> std::unique_ptr<RandomSource> { return std::make_unique<Source>(); });
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

}  // namespace

EnginePtr bernoulli_other_side() {
  return drawing_by([] {
    return Drawing{
        .bernoulli = [](const at::Tensor& u, const at::Tensor& p) { return u.ge(p.to(u.scalar_type())); }};
  });
}
EnginePtr rrelu_threshold() {
  return drawing_by([] {
    return Drawing{.rrelu = [](const at::Tensor& input, const at::Tensor& slopes) {
      return rrelu_noise(input.sub(0.5), slopes);
    }};
  });
}
EnginePtr multinomial_least() {
  return drawing_by([] {
    return Drawing{.multinomial = [](const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                                     bool replacement) {
      return multinomial_pick(weights.neg(), drawn, samples, replacement);
    }};
  });
}
EnginePtr range_short() {
  return drawing_by([] {
    return Drawing{.integers = [](c10::ScalarType dtype, int64_t from, std::optional<int64_t> to) {
      return integer_range(dtype, from, short_end(from, to));
    }};
  });
}
EnginePtr dropout_divides() {
  return drawing_by([] { return Drawing{.dropout = divided}; });
}

EnginePtr oracle_bernoulli_other_side() {
  return judged_by<OtherSide>();
}
EnginePtr oracle_rrelu_threshold() {
  return judged_by<Threshold>();
}
EnginePtr oracle_multinomial_least() {
  return judged_by<Least>();
}
EnginePtr oracle_range_short() {
  return judged_by<Short>();
}
EnginePtr oracle_dropout_scale() {
  return judged_by<OtherScale>();
}

}  // namespace lockstep::suites::plant
