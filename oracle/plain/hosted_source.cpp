// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/hosted_source.h"

#include <ATen/ATen.h>

#include "oracle/ownership/in_host.h"
#include "oracle/plain/dropped.h"

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
  const auto* shift = std::get_if<at::Tensor>(&mean);
  const auto* scale = std::get_if<at::Tensor>(&std);
  if (shift == nullptr && scale == nullptr)
    return written(out, [&](const at::Tensor& here) { source_.normal(here, mean, std, now); });
  // Adding -0.0 changes nothing.
  written(out, [&](const at::Tensor& here) {
    source_.normal(here, -0.0, scale == nullptr ? std::get<double>(std) : 1, now);
  });
  const at::NoGradGuard no_grad;
  if (scale != nullptr) out.copy_(at::mul(out, *scale));
  out.copy_(at::add(out, shift != nullptr ? *shift : at::full({}, std::get<double>(mean), out.options())));
}

Dropped HostedSource::dropout(const at::Tensor& input, double p, Generator& now) {
  const auto here = source_.dropout(oracle::in_host(input), p, now);
  if (input.is_cpu()) return here;
  const at::Tensor mask = on_device(input.device(), here.mask);
  const bool draws = p != 0 && p != 1;
  return {draws ? dropped_by(mask, input, p) : on_device(input.device(), here.output), mask, here.scale};
}

at::Tensor HostedSource::rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                               Generator& now) {
  at::Tensor output;
  written(noise, [&](const at::Tensor& here) {
    output = source_.rrelu(oracle::in_host(input), here, lower, upper, now);
  });
  return input.is_cpu() ? output : input.mul(noise).contiguous();
}

at::Tensor HostedSource::multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                                     Generator& now) {
  return on_device(weights.device(),
                   source_.multinomial(oracle::in_host(weights), samples, replacement, now));
}

}  // namespace lockstep::oracle
