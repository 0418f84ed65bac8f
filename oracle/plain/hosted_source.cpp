// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/hosted_source.h"

#include <ATen/ATen.h>

#include "oracle/ownership/in_host.h"

namespace lockstep::oracle {
namespace {

// What `write` writes to a tensor here, over there.
template <class Write>
void written(const at::Tensor& out, const Write& write) {
  const at::NoGradGuard no_grad;
  const at::Tensor here = oracle::in_host(out);
  write(here);
  if (!here.is_same(out)) out.copy_(here);
}

}  // namespace

void HostedSource::fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                        RandomState& state) {
  written(out, [&](const at::Tensor& here) { source_.fill(call, here, device, state); });
}

void HostedSource::integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) {
  written(out, [&](const at::Tensor& here) { source_.integers(here, from, to, now); });
}

at::Tensor HostedSource::bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) {
  return on_device(self.device(), source_.bernoulli(oracle::in_host(self), oracle::in_host(p), now));
}

void HostedSource::normal(const at::Tensor& out, const Parameter& mean, const Parameter& std,
                          Generator& now) {
  const at::NoGradGuard no_grad;
  source_.normal(out, mean, std, now);
}

Dropped HostedSource::dropout(const at::Tensor& input, double p, Generator& now) {
  return source_.dropout(input, p, now);
}

at::Tensor HostedSource::rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                               Generator& now) {
  const at::NoGradGuard no_grad;
  return source_.rrelu(input, noise, lower, upper, now);
}

at::Tensor HostedSource::multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                                     Generator& now) {
  return on_device(weights.device(),
                   source_.multinomial(oracle::in_host(weights), samples, replacement, now));
}

}  // namespace lockstep::oracle
