// SPDX-License-Identifier: Apache-2.0
// What a Context keeps of what has been found out: decisions about calls, and routes.
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>

#include "engine/context/context.h"
#include "engine/layout/route.h"
#include "engine/ops/hosted.h"
#include "engine/tensor/operands.h"

namespace lockstep {

// Where a route begins and ends. Specs compare without the names of mesh dimensions, which the steps of a
// route say.
using Ends = std::pair<SpecPtr, SpecPtr>;
struct SameEnds {
  bool operator()(const Ends& a, const Ends& b) const;
};
struct HashOfEnds {
  size_t operator()(const Ends& ends) const;
};

struct Decisions {
  size_t limit = 16384;  // of decisions, or routes; beyond it they start anew. 0: none is kept
  std::unordered_map<CacheKey, HostedPtr, CacheKeyHash> map;
  uint64_t version = 0;  // of the users' rules
  std::unordered_map<Ends, std::shared_ptr<const Route>, HashOfEnds, SameEnds> routes;
};
Decisions& decisions_of(Context& context);

// While alive, each op of the Context is decided by itself. Law: as it is decided otherwise.
class DecidesAnew {
 public:
  explicit DecidesAnew(Context& context)
      : decisions_(decisions_of(context)), limit_(std::exchange(decisions_.limit, 0)) {}
  ~DecidesAnew() { decisions_.limit = limit_; }
  DecidesAnew(const DecidesAnew&) = delete;
  DecidesAnew& operator=(const DecidesAnew&) = delete;

 private:
  Decisions& decisions_;
  size_t limit_;
};

// The route from one Spec to another, planned once. Law: it is route(from, to).
std::shared_ptr<const Route> known_route(Context& context, const SpecPtr& from, const SpecPtr& to);

}  // namespace lockstep
