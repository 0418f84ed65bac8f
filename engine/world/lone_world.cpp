// SPDX-License-Identifier: Apache-2.0
#include "engine/world/lone_world.h"

#include "engine/values/error.h"

namespace lockstep {
namespace {

class LoneWorld final : public World {
 public:
  LoneWorld(int64_t n, int64_t rank) : size_(n), hosted_{rank} {}

  std::string name() const override { return "lone"; }
  int64_t size() const override { return size_; }
  const std::vector<int64_t>& hosted() const override { return hosted_; }

  PerRank<std::vector<at::Tensor>> all_gather(const std::vector<int64_t>&, const std::vector<Group>&,
                                              const PerRank<at::Tensor>&) override {
    refuse("all_gather");
  }
  PerRank<std::vector<at::Tensor>> all_to_all(const std::vector<int64_t>&, const std::vector<Group>&,
                                              const PerRank<std::vector<at::Tensor>>&) override {
    refuse("all_to_all");
  }
  PerRank<at::Tensor> broadcast(const std::vector<int64_t>&, const std::vector<Group>&, int64_t,
                                const PerRank<at::Tensor>&) override {
    refuse("broadcast");
  }

 private:
  [[noreturn]] void refuse(const char* collective) const {
    throw Error(concat("[", collective, "] rank ", hosted_[0], " of ", size_,
                       " is alone in its world; use local_world for ranks that meet"));
  }

  int64_t size_;
  std::vector<int64_t> hosted_;
};

}  // namespace

WorldPtr lone_world(int64_t n, int64_t rank) {
  LOCKSTEP_CHECK(n >= 1 && rank >= 0 && rank < n, "[lone_world] rank ", rank, " of ", n, " ranks");
  return std::make_shared<LoneWorld>(n, rank);
}

}  // namespace lockstep
