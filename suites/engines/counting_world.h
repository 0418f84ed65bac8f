// SPDX-License-Identifier: Apache-2.0
// CountingWorld: a World that counts calls and the bytes that ranks send to others.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/world/worlds.h"

namespace lockstep::suites {

struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;          // that hosted ranks receive from others
  std::vector<int64_t> sent;  // to others, by rank, as far as ranks have sent any

  Traffic& operator+=(const Traffic& other);
};

// @post forwards everything to `world`, unchanged; `traffic` must outlive the result.
WorldPtr counting(WorldPtr world, Traffic& traffic);
// The same by collective: "all_gather", "reduce_scatter", …
using TrafficByOp = std::map<std::string, Traffic>;
WorldPtr counting(WorldPtr world, TrafficByOp& traffic);

// While alive, what this thread exchanges is not counted: it belongs to no step.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

}  // namespace lockstep::suites
