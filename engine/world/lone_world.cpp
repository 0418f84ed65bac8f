// SPDX-License-Identifier: Apache-2.0
// LoneWorld: one rank of a job, without the others.
#include "engine/values/error.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

class LoneWorld final : public World {
 public:
  LoneWorld(int64_t n, int64_t rank) : World("lone", n, {rank}) {}

  Work exchange(Exchange asked) override {
    throw Error(concat("[", asked.op, "] rank ", hosted()[0], " of ", size(),
                       " is alone in its world; use local_world for ranks that meet"));
  }
};

}  // namespace

WorldPtr lone_world(int64_t n, int64_t rank) {
  LOCKSTEP_CHECK(n >= 1 && rank >= 0 && rank < n, "[lone_world] rank ", rank, " of ", n, " ranks");
  return std::make_shared<LoneWorld>(n, rank);
}

}  // namespace lockstep
