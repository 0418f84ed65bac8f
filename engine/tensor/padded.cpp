// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/padded.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {

std::vector<int64_t> padded_shape(const Spec& spec) {
  auto most = local_shape(spec, 0);
  for (int64_t p = 1; p < spec.mesh().size(); ++p) {
    const auto held = local_shape(spec, p);
    for (size_t d = 0; d < most.size(); ++d) most[d] = std::max(most[d], held[d]);
  }
  return most;
}

PerRank<at::Tensor> padded(PerRank<at::Tensor> locals, const Spec& spec) {
  const auto shape = padded_shape(spec);
  for (auto& local : locals) {
    if (local.sizes() == at::IntArrayRef(shape)) continue;
    std::vector<int64_t> pad;  // before and after, from the last dimension
    for (size_t d = shape.size(); d-- > 0;)
      pad.insert(pad.end(), {0, shape[d] - local.size(static_cast<int64_t>(d))});
    local = at::constant_pad_nd(local, pad);
  }
  return locals;
}

PerRank<at::Tensor> unpadded(PerRank<at::Tensor> locals, const Spec& spec, const Comm& comm) {
  const auto shape = padded_shape(spec);
  for (size_t i = 0; i < locals.size(); ++i) {
    LOCKSTEP_CHECK(locals[i].sizes() == at::IntArrayRef(shape), "[from_local] rank ", comm.ranks[i], " gave ",
                   locals[i].sizes(), ", but a padded local of ", to_string(spec), " is ",
                   at::IntArrayRef(shape), "; pad it at the end of each dimension, as to_local does");
    const auto held = local_shape(spec, comm.positions[i]);
    for (size_t d = 0; d < held.size(); ++d)
      locals[i] = locals[i].narrow(static_cast<int64_t>(d), 0, held[d]);
  }
  return locals;
}

}  // namespace lockstep
