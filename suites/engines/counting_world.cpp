// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/counting_world.h"

namespace lockstep::suites {
namespace {

class CountingWorld : public World {
 public:
  CountingWorld(WorldPtr world, Traffic& traffic) : world_(std::move(world)), traffic_(traffic) {}
  std::string name() const override { return world_->name(); }
  int64_t size() const override { return world_->size(); }
  const std::vector<int64_t>& hosted() const override { return world_->hosted(); }

  PerRank<std::vector<at::Tensor>> all_gather(const std::vector<int64_t>& ranks,
                                              const std::vector<Group>& groups,
                                              const PerRank<at::Tensor>& sent) override {
    return count(groups, world_->all_gather(ranks, groups, sent));
  }
  PerRank<std::vector<at::Tensor>> all_to_all(const std::vector<int64_t>& ranks,
                                              const std::vector<Group>& groups,
                                              const PerRank<std::vector<at::Tensor>>& sent) override {
    return count(groups, world_->all_to_all(ranks, groups, sent));
  }
  PerRank<at::Tensor> broadcast(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                                int64_t root, const PerRank<at::Tensor>& sent) override {
    auto received = world_->broadcast(ranks, groups, root, sent);
    ++traffic_.calls;
    for (size_t i = 0; i < received.size(); ++i)
      if (groups[i].place != root) traffic_.bytes += static_cast<int64_t>(received[i].nbytes());
    return received;
  }

 private:
  PerRank<std::vector<at::Tensor>> count(const std::vector<Group>& groups,
                                         PerRank<std::vector<at::Tensor>> received) {
    ++traffic_.calls;
    for (size_t i = 0; i < received.size(); ++i)
      for (size_t k = 0; k < received[i].size(); ++k)
        if (static_cast<int64_t>(k) != groups[i].place)
          traffic_.bytes += static_cast<int64_t>(received[i][k].nbytes());
    return received;
  }

  WorldPtr world_;
  Traffic& traffic_;
};

}  // namespace

WorldPtr counting(WorldPtr world, Traffic& traffic) {
  return std::make_shared<CountingWorld>(std::move(world), traffic);
}

}  // namespace lockstep::suites
