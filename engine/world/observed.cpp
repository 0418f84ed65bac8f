// SPDX-License-Identifier: Apache-2.0
#include "engine/world/observed.h"

#include <c10/util/ScopeExit.h>

#include "engine/context/asking.h"

namespace lockstep {
namespace {

int64_t received_bytes(const Exchange& asked) {
  int64_t bytes = 0;
  for (const auto& part : asked.parts)
    for (const auto& parcel : part.received)
      if (parcel.place != part.group->place) bytes += parcel.slab.nbytes();
  return bytes;
}

}  // namespace

Activity collective(std::string name, int64_t bytes) {
  Activity activity{.kind = ActivityKind::kCollective, .name = std::move(name)};
  activity.what = Asking::now();
  activity.bytes = bytes;
  return activity;
}

Work begin_exchange(World& world, Exchange asked) {
  const auto log = recording();
  if (log == nullptr) return world.exchange(std::move(asked));
  const auto number = log->begin(collective(asked.op, received_bytes(asked)));
  auto refused = c10::make_scope_exit([&] { log->end(number); });
  auto work = world.exchange(std::move(asked));
  refused.release();
  return std::move(work).around([log, number](const auto& finish) {
    const auto done = c10::make_scope_exit([&] { log->end(number); });
    finish();
  });
}

}  // namespace lockstep
