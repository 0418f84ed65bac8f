// SPDX-License-Identifier: Apache-2.0
// The engine's random operators on plain tensors: one draw and operators on whole tensors. How numbers are
// drawn is left to `fill`.
#pragma once
#include "engine/stream/random_source.h"

namespace lockstep {

class TensorSource : public RandomSource {
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
  void draw(const RandomCall& call, const at::Tensor& out, Generator& now);
  at::Tensor drawn(const RandomCall& call, Generator& now);
};

}  // namespace lockstep
