// SPDX-License-Identifier: Apache-2.0
// World: the ranks of a job, and which of them this process hosts. Collectives move bits and never add:
// whoever reduces does so locally, in rank order, so that every World gives the same bits.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/values/per_rank.h"

namespace lockstep {

// For each hosted rank, the ordered group it communicates with (itself included) and its place in that group.
struct Group {
  std::vector<int64_t> ranks;
  int64_t place = 0;
};

class World {
 public:
  virtual ~World() = default;
  virtual std::string name() const = 0;  // "local", later "gloo", "nccl"
  virtual int64_t size() const = 0;
  // The ranks this process hosts, ascending.
  virtual const std::vector<int64_t>& hosted() const = 0;

  // @param ranks the hosted ranks that take part; groups[i], sent[i] belong to ranks[i].
  // @post result[i][k] has the bits of the tensor that rank groups[i].ranks[k] sent. Read it, do not write to
  // it: it may share storage with what was sent, or with another rank's result.
  virtual PerRank<std::vector<at::Tensor>> all_gather(const std::vector<int64_t>& ranks,
                                                      const std::vector<Group>& groups,
                                                      const PerRank<at::Tensor>& sent) = 0;
  // @post result[i][k] has the bits of sent_by(groups[i].ranks[k])[groups[i].place]; read only, as above.
  virtual PerRank<std::vector<at::Tensor>> all_to_all(const std::vector<int64_t>& ranks,
                                                      const std::vector<Group>& groups,
                                                      const PerRank<std::vector<at::Tensor>>& sent) = 0;
  // @post result[i] has the bits that the root (place `root` of each group) sent; read only, as above.
  virtual PerRank<at::Tensor> broadcast(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                                        int64_t root, const PerRank<at::Tensor>& sent) = 0;
};

using WorldPtr = std::shared_ptr<World>;

// Hosts all n ranks in the calling thread, in lockstep: no deadlock, no network, deterministic.
WorldPtr local_world(int64_t n);

}  // namespace lockstep
