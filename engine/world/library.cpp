// SPDX-License-Identifier: Apache-2.0
#include "engine/world/library.h"

#include <unistd.h>

#include <map>
#include <memory>

#include "engine/values/error.h"
#include "engine/world/gloo_gang.h"
#include "engine/world/observed.h"

namespace lockstep {
namespace {

// Groups of one size take turns with one gang: to make one costs more than most cases. A thread has its own,
// and a child process, which has none of its parent's threads, too. None is ever taken down: at exit its
// threads wait for nothing.
GlooGang& gang_of(int64_t ranks) {
  thread_local auto* gangs = new std::map<std::pair<pid_t, int64_t>, std::unique_ptr<GlooGang>>;
  auto& gang = (*gangs)[{getpid(), ranks}];
  if (gang == nullptr) gang = std::make_unique<GlooGang>(ranks);
  return *gang;
}

// Calls f(gang, the hosted ranks of a group by place) for each group.
template <class F>
void each_group(const Groups& groups, const F& f) {
  std::map<std::vector<int64_t>, std::vector<size_t>> hosted;
  for (size_t i = 0; i < groups.size(); ++i) {
    auto& members = hosted[groups[i].ranks];
    members.resize(groups[i].ranks.size());
    members[static_cast<size_t>(groups[i].place)] = i;
  }
  for (const auto& [ranks, members] : hosted) f(gang_of(std::ssize(ranks)), members);
}

std::vector<at::Tensor> picked(const PerRank<at::Tensor>& all, const std::vector<size_t>& which) {
  std::vector<at::Tensor> found;
  for (const size_t i : which) found.push_back(all[i]);
  return found;
}

// As of ranks that fold: each receives a term of this form from every other one.
int64_t from_others(const Groups& groups, const PerRank<at::Tensor>& terms) {
  int64_t bytes = 0;
  for (size_t i = 0; i < groups.size(); ++i)
    bytes += (std::ssize(groups[i].ranks) - 1) * static_cast<int64_t>(terms[i].nbytes());
  return bytes;
}

class Gangs final : public Library {
 public:
  void all_reduce(const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& tensors) override {
    const Active active([&](auto&) { return collective("all_reduce", from_others(groups, tensors)); });
    each_group(groups, [&](GlooGang& gang, const std::vector<size_t>& members) {
      gang.all_reduce(op, picked(tensors, members));
    });
  }
  void reduce_scatter(const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& sent,
                      const PerRank<at::Tensor>& into) override {
    const Active active([&](auto&) { return collective("reduce_scatter", from_others(groups, into)); });
    each_group(groups, [&](GlooGang& gang, const std::vector<size_t>& members) {
      gang.reduce_scatter(op, picked(sent, members), picked(into, members));
    });
  }
};

class ReducingWorld final : public World {
 public:
  explicit ReducingWorld(WorldPtr world) : World(*world), world_(std::move(world)) {}
  Work exchange(Exchange asked) override { return world_->exchange(std::move(asked)); }
  Library* library() override { return &gangs_; }

 private:
  WorldPtr world_;
  Gangs gangs_;
};

}  // namespace

WorldPtr reducing_by_gloo(WorldPtr world) {
  LOCKSTEP_CHECK(std::ssize(world->hosted()) == world->size() && world->device().is_cpu(), "[library] the ",
                 world->name(), " world hosts some ranks of ", world->size(),
                 ", or not on the CPU; Gloo reduces where one process hosts them all");
  return std::make_shared<ReducingWorld>(std::move(world));
}

}  // namespace lockstep
