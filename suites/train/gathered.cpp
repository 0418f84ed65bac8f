// SPDX-License-Identifier: Apache-2.0
// What the threads and processes of a team say to each other.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "suites/train/team.h"

namespace lockstep::suites {
namespace {

bool hosts_all(const World& world) {
  return std::ssize(world.hosted()) == world.size();
}

// The buffers for what each position of the Spec sends.
std::vector<Parcel> buffers(const Spec& spec) {
  std::vector<Parcel> parcels;
  for (int64_t p = 0; p < spec.mesh().size(); ++p) {
    const auto shape = local_shape(spec, p);
    parcels.push_back({p, at::empty_strided(shape, local_stride(spec, shape), local_options(spec))});
  }
  return parcels;
}

}  // namespace

bool leads(const WorldPtr& world) {
  return world == nullptr || world->hosted().at(0) == 0;
}

bool decided(const WorldPtr& world, bool mine) {
  if (world == nullptr || hosts_all(*world)) return mine;
  Groups groups;
  PerRank<at::Tensor> sent, into;
  for (const int64_t rank : world->hosted()) {
    groups.push_back({up_to(world->size()), rank});
    sent.push_back(at::full({1}, mine ? 1 : 0, at::kByte));
    into.push_back(at::zeros({1}, at::kByte));
  }
  broadcast(*world, groups, 0, sent, into).wait();
  return leads(world) ? mine : into[0].item<uint8_t>() != 0;
}

bool anyone(const WorldPtr& world, bool mine) {
  if (world == nullptr || hosts_all(*world)) return mine;
  Groups groups;
  for (const int64_t rank : world->hosted()) groups.push_back({up_to(world->size()), rank});
  const PerRank<at::Tensor> sent(groups.size(), at::full({1}, mine ? 1 : 0, at::kByte));
  bool all = mine;
  all_gather(*world, groups, sent, [&](size_t, const at::Tensor& word) {
    all = all || word.item<uint8_t>() != 0;
  }).wait();
  return all;
}

PerRank<at::Tensor> gathered(const at::Tensor& dtensor) {
  const auto mesh = device_mesh(dtensor);
  const auto& locals = local_tensors(dtensor);
  if (hosts_all(*mesh.world)) return locals;
  const auto& groups = mesh.comm->whole;
  const auto& ranks = groups.at(0).ranks;
  const int64_t leader = std::find(ranks.begin(), ranks.end(), 0) - ranks.begin();
  Exchange asked{"gather", {}, nullptr};
  PerRank<at::Tensor> all = locals;
  for (size_t i = 0; i < groups.size(); ++i) {
    Part part{&groups[i], {{leader, locals[i].detach()}}, {}};
    if (groups[i].self() == 0) {
      part.received = buffers(spec(dtensor));
      all.clear();
      for (const auto& parcel : part.received) all.push_back(parcel.tensor());
    }
    asked.parts.push_back(std::move(part));
  }
  mesh.world->exchange(std::move(asked)).wait();
  return all;
}

}  // namespace lockstep::suites
