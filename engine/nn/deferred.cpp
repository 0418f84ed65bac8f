// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/deferred.h"

#include "engine/values/error.h"

namespace lockstep::nn {

void require_deferred(const Module& module) {
  const auto check = [](const char* kind, const Named<at::Tensor>& tensors) {
    for (const auto& [path, tensor] : tensors)
      LOCKSTEP_CHECK(tensor.is_meta(), "[deferred_init] the ", kind, " '", path, "' of shape ",
                     tensor.sizes(),
                     " has memory already; make it with add_parameter or add_buffer and give it values in "
                     "reset_own_parameters");
  };
  check("parameter", module.named_parameters());
  check("buffer", module.named_buffers());
}

void materialize(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table) {
  require_deferred(module);
  distribute_module(module, mesh, table);
  reset_parameters(module);
}

}  // namespace lockstep::nn
