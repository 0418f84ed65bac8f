// SPDX-License-Identifier: Apache-2.0
#include "suites/experts/mixed.h"

#include "engine/nn/distribute.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"

namespace lockstep::suites {

std::vector<at::Tensor> mixed(const WorldPtr& world, const Mixing& m, const MixingFault& fault) {
  const auto mesh = init_device_mesh(m.mesh.device_type(), m.mesh.shape(), m.mesh.names(), world);
  nn::MixtureOfExperts mixture(
      {.hidden = m.hidden, .inner = m.inner, .experts = m.experts, .top_k = m.top_k, .dtype = m.dtype});
  Placements cut(as_size(m.mesh.ndim()), Replicate{});
  if (m.along >= 0) cut[as_size(m.along)] = Shard{0};
  constexpr const char* kWeights[] = {"gate.weight", "experts.gate_proj", "experts.up_proj",
                                      "experts.down_proj"};
  for (size_t i = 0; i < std::size(kWeights); ++i)
    mixture.set_parameter(kWeights[i], m.weight(i).to(m.mesh.device_type()).requires_grad_());
  nn::distribute_module(mixture, mesh, {{"experts.*", cut}});
  if (fault.before != nullptr) fault.before(m, mixture);
  const auto on_mesh = [&](const at::Tensor& t) {
    return distribute_tensor(t.to(m.mesh.device_type()), mesh, m.cut, {}, std::nullopt);
  };
  const auto x = parameter(on_mesh(m.x()));
  const auto output = mixture(x);
  output.backward(redistribute(on_mesh(m.grad()), placements(output)));
  if (fault.after != nullptr) fault.after(m, mixture);
  std::vector<at::Tensor> ends{output.detach(), x.grad()};
  for (const char* weight : kWeights) ends.push_back(mixture.parameter(weight).grad());
  return ends;
}

}  // namespace lockstep::suites
