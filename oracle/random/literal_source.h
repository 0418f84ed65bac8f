// SPDX-License-Identifier: Apache-2.0
// The oracle's random operators, element by element after the stock kernels. How numbers are drawn is left to
// `fill`. Shares nothing with the engine's, which are operators on whole tensors.
#pragma once
#include "engine/stream/random_source.h"

namespace lockstep::oracle {

class LiteralSource : public RandomSource {
 public:
  void integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) override;
  at::Tensor bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) override;
  void normal(const at::Tensor& out, const Parameter& mean, const Parameter& std, Generator& now) override;
  Dropped dropout(const at::Tensor& input, double p, Generator& now) override;
  at::Tensor rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                   Generator& now) override;
  at::Tensor multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                         Generator& now) override;

 private:
  // A new tensor with the call's values.
  at::Tensor draw(const RandomCall& call, Generator& now);
};

}  // namespace lockstep::oracle
