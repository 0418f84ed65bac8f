// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/hosted.h"

#include "engine/layout/layout.h"

namespace lockstep {

HostedPtr host(std::shared_ptr<const Decision> decision, const Comm& comm) {
  auto hosted = std::make_shared<Hosted>();
  hosted->positions = comm.positions;
  for (const auto& spec : decision->outputs) {
    auto& forms = hosted->outputs.emplace_back();
    for (size_t r = 0; spec != nullptr && r < comm.positions.size(); ++r) {
      auto shape = local_shape(*spec, comm.positions[r]);
      auto stride = local_stride(*spec, shape);
      forms.push_back({std::move(shape), std::move(stride)});
    }
  }
  hosted->decision = std::move(decision);
  return hosted;
}

}  // namespace lockstep
