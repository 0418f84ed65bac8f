// SPDX-License-Identifier: Apache-2.0
// Together: a World that keeps the exchanges it is asked for, and then begins those of one kind among the
// same ranks as one.
#pragma once
#include "engine/world/world.h"

namespace lockstep {

class Together final : public World {
 public:
  explicit Together(WorldPtr world);
  ~Together() override;

  // The Work may be waited for once begin() was called.
  Work exchange(Exchange asked) override;
  // Begins what was asked for since the last call: exchanges of one op, whose ranks are in the same groups,
  // as one exchange of `world`, in which each rank's parcels follow each other as they were asked for. Law:
  // every parcel goes where it goes in an exchange of its own.
  void begin();
  Library* library() override { return world_->library(); }

 private:
  struct Batch;
  const WorldPtr world_;
  std::vector<std::shared_ptr<Batch>> batches_;
};

}  // namespace lockstep
