// SPDX-License-Identifier: Apache-2.0
// HostedSource: a RandomSource that knows the host's memory alone, for tensors on a device.
#pragma once
#include "engine/stream/random_source.h"

namespace lockstep::oracle {

// Law: every number is the source's; what it reads and writes is brought to it and back. What normal(),
// dropout() and rrelu() compute with the numbers is computed where the tensors are, whose NaN may be another.
class HostedSource : public RandomSource {
 public:
  explicit HostedSource(RandomSource& source) : source_(source) {}

  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
  void integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) override;
  at::Tensor bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) override;
  void normal(const at::Tensor& out, const Parameter& mean, const Parameter& std, Generator& now) override;
  Dropped dropout(const at::Tensor& input, double p, Generator& now) override;
  at::Tensor rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                   Generator& now) override;
  at::Tensor multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                         Generator& now) override;

 private:
  RandomSource& source_;
};

}  // namespace lockstep::oracle
