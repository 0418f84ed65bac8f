// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_mode.h"

#include <ATen/ATen.h>

namespace lockstep::random_mode {

RandomSource& source() {
  auto* source = current_context()->source;
  if (source == nullptr) throw Broken("[random] the random mode is on in a thread without a RandomScope");
  return *source;
}

bool passes(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::Fake) || keys.has_backend(c10::BackendComponent::MetaBit);
}

void check_generator(const char* op, const GivenGenerator& given) {
  LOCKSTEP_CHECK(!given.has_value(), "[", op,
                 "] got a torch::Generator inside a RandomScope, whose stream is "
                 "lockstep::generator(); leave the argument out, or draw outside of the scope");
}

RandomCall call_on(RandomKind kind, const at::Tensor& x) {
  return {.kind = kind, .dtype = x.scalar_type(), .shape = x.sizes().vec(), .stride = x.strides().vec()};
}

at::Tensor drawn(const RandomCall& call, const at::TensorOptions& options) {
  auto out = at::empty_strided(call.shape, call.stride, options.dtype(call.dtype).requires_grad(false));
  if (out.numel() > 0) source().fill(call, out, generator().device, generator().state);
  return out;
}

}  // namespace lockstep::random_mode
