// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_mode.h"

#include <ATen/ATen.h>

#include "engine/values/error.h"

namespace lockstep::random_mode {

RandomSource& source() {
  auto* source = current_context()->source;
  if (source == nullptr) throw Broken("[random] the random mode is on in a thread without a RandomScope");
  return *source;
}

bool passes(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::Fake) || keys.has_backend(c10::BackendComponent::MetaBit);
}

void check_generator(const char* op, const std::optional<at::Generator>& given) {
  LOCKSTEP_CHECK(!given.has_value(), "[", op,
                 "] got a torch::Generator inside a RandomScope, whose stream is "
                 "lockstep::generator(); leave the argument out, or draw outside of the scope");
}

RandomCall call_on(RandomKind kind, const at::Tensor& x) {
  RandomCall call;
  call.kind = kind;
  call.dtype = x.scalar_type();
  call.shape = x.sizes().vec();
  call.stride = x.strides().vec();
  return call;
}

at::Tensor drawn(const RandomCall& call, const at::TensorOptions& options) {
  auto out = at::empty_strided(call.shape, call.stride, options.dtype(call.dtype).requires_grad(false));
  if (out.numel() > 0) source().fill(call, out, generator().device, generator().state);
  return out;
}

}  // namespace lockstep::random_mode
