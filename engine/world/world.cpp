// SPDX-License-Identifier: Apache-2.0
// LocalWorld: every rank in this thread. A collective is a lookup.
#include "engine/world/world.h"

#include <numeric>

#include "engine/values/error.h"

namespace lockstep {
namespace {

class LocalWorld final : public World {
 public:
  explicit LocalWorld(int64_t n) : hosted_(static_cast<size_t>(n)), place_(static_cast<size_t>(n)) {
    std::iota(hosted_.begin(), hosted_.end(), int64_t{0});
  }

  std::string name() const override { return "local"; }
  int64_t size() const override { return static_cast<int64_t>(hosted_.size()); }
  const std::vector<int64_t>& hosted() const override { return hosted_; }

  PerRank<std::vector<at::Tensor>> all_gather(const std::vector<int64_t>& ranks,
                                              const std::vector<Group>& groups,
                                              const PerRank<at::Tensor>& sent) override {
    index(ranks);
    PerRank<std::vector<at::Tensor>> received(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i)
      for (const int64_t rank : groups[i].ranks) received[i].push_back(sent[at(rank)]);
    return received;
  }

  PerRank<std::vector<at::Tensor>> all_to_all(const std::vector<int64_t>& ranks,
                                              const std::vector<Group>& groups,
                                              const PerRank<std::vector<at::Tensor>>& sent) override {
    index(ranks);
    PerRank<std::vector<at::Tensor>> received(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i)
      for (const int64_t rank : groups[i].ranks)
        received[i].push_back(sent[at(rank)][static_cast<size_t>(groups[i].place)]);
    return received;
  }

  PerRank<at::Tensor> broadcast(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                                int64_t root, const PerRank<at::Tensor>& sent) override {
    index(ranks);
    PerRank<at::Tensor> received;
    for (const auto& group : groups) received.push_back(sent[at(group.ranks[static_cast<size_t>(root)])]);
    return received;
  }

 private:
  void index(const std::vector<int64_t>& ranks) {
    for (size_t i = 0; i < ranks.size(); ++i) place_[static_cast<size_t>(ranks[i])] = i;
  }
  size_t at(int64_t rank) const { return place_[static_cast<size_t>(rank)]; }

  std::vector<int64_t> hosted_;
  std::vector<size_t> place_;  // rank -> its index in the current call
};

}  // namespace

WorldPtr local_world(int64_t n) {
  LOCKSTEP_CHECK(n >= 1, "[local_world] a world needs at least one rank, not ", n);
  return std::make_shared<LocalWorld>(n);
}

}  // namespace lockstep
