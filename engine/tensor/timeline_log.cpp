// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/timeline_log.h"

#include "engine/values/digest.h"

namespace lockstep {

Timeline* current_timeline() {
  return current_context()->timeline;
}

TensorRecord record(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  return impl == nullptr ? TensorRecord{} : record(impl->spec(), impl->locals());
}

}  // namespace lockstep
