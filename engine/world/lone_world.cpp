// SPDX-License-Identifier: Apache-2.0
#include "engine/world/lone_world.h"

#include "engine/values/error.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

class LoneWorld final : public World {
 public:
  LoneWorld(int64_t n, int64_t rank) : size_(n), hosted_{rank} {}

  std::string name() const override { return "lone"; }
  int64_t size() const override { return size_; }
  const std::vector<int64_t>& hosted() const override { return hosted_; }
  c10::Device device() const override { return c10::kCPU; }

  Work exchange(Exchange asked) override {
    throw Error(concat("[", asked.op, "] rank ", hosted_[0], " of ", size_,
                       " is alone in its world; use local_world for ranks that meet"));
  }

 private:
  int64_t size_;
  std::vector<int64_t> hosted_;
};

}  // namespace

WorldPtr lone_world(int64_t n, int64_t rank) {
  LOCKSTEP_CHECK(n >= 1 && rank >= 0 && rank < n, "[lone_world] rank ", rank, " of ", n, " ranks");
  return std::make_shared<LoneWorld>(n, rank);
}

}  // namespace lockstep
