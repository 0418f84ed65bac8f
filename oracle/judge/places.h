// SPDX-License-Identifier: Apache-2.0
// Where the values of the plain run lie on the engine: how each is placed, by the op that made it, by what
// was asked for, and by what the engine moved by itself. A value has no other places than these.
#pragma once
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

class Places {
 public:
  // By whom a value lies so. What is moved for an op is seen by nobody else, unless it is a gradient.
  enum class By { kProgram, kEngine };

  // The storage is new: nothing in it lies anywhere else.
  void begin(const Window& window, SpecPtr spec);
  void add(const Window& window, SpecPtr spec, By by = By::kProgram);
  // Of exactly these elements, by this one alone or by whomever; in the order in which they came to be known.
  std::vector<SpecPtr> of(const Window& window) const;
  std::vector<SpecPtr> of(const Window& window, By by) const;

  // At the end this value is handed in so.
  void hand_in(const Window& window, SpecPtr spec);
  // Whether a value that lies so may be one that is handed in from here: it is written no more.
  bool may_become(const Window& window, const SpecPtr& spec) const;

 private:
  struct Place {
    Window window;
    SpecPtr spec;
    By by;
  };
  std::unordered_map<const c10::StorageImpl*, std::vector<Place>> places_;
  std::vector<std::pair<Window, SpecPtr>> handed_in_;
};

// Whether one of them has the placements and the order of `spec`.
bool lies_so(const std::vector<SpecPtr>& places, const Spec& spec);

}  // namespace lockstep::oracle
