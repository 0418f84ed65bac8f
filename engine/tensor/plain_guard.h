// SPDX-License-Identifier: Apache-2.0
// Within it, ops on plain tensors go straight to their kernels: below autograd, past the engine's own
// fallback (also where Fake is included by thread) and past a RandomScope.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace lockstep {

struct PlainGuard {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard exclude{
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::TESTING_ONLY_GenericMode})};
};

}  // namespace lockstep
