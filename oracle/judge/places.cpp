// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/places.h"

#include <algorithm>

namespace lockstep::oracle {
namespace {

// Names are not told apart where dimensions of one element are all that they differ in.
bool same_elements(const Window& a, const Window& b) {
  return a.offset == b.offset && a.shape == b.shape && a.stride == b.stride;
}

}  // namespace

void Places::begin(const Window& window, SpecPtr spec) {
  places_[window.id()] = {{window, std::move(spec), By::kProgram}};
}

// Once: of small values that are alike, as zeros are, each move is of every one of them.
void Places::add(const Window& window, SpecPtr spec, By by) {
  auto& places = places_[window.id()];
  const bool known = std::any_of(places.begin(), places.end(), [&](const Place& p) {
    return p.by == by && *p.spec == *spec && same_elements(p.window, window);
  });
  if (!known) places.push_back({window, std::move(spec), by});
}

std::vector<SpecPtr> Places::of(const Window& window) const {
  auto all = of(window, By::kProgram);
  for (auto& spec : of(window, By::kEngine)) all.push_back(std::move(spec));
  return all;
}

std::vector<SpecPtr> Places::of(const Window& window, By by) const {
  std::vector<SpecPtr> specs;
  if (const auto found = places_.find(window.id()); found != places_.end())
    for (const Place& p : found->second)
      if (p.by == by && same_elements(p.window, window)) specs.push_back(p.spec);
  return specs;
}

void Places::hand_in(const Window& window, SpecPtr spec) {
  if (spec != nullptr) handed_in_.emplace_back(window, std::move(spec));
}

bool Places::may_become(const Window& window, const SpecPtr& spec) const {
  std::vector<SpecPtr> as;
  for (const auto& [handed, in] : handed_in_)
    if (handed == window) as.push_back(in);
  return spec == nullptr || as.empty() || lies_so(as, *spec);
}

bool lies_so(const std::vector<SpecPtr>& places, const Spec& spec) {
  return std::any_of(places.begin(), places.end(), [&](const SpecPtr& place) {
    return place->placements() == spec.placements() && place->order() == spec.order();
  });
}

}  // namespace lockstep::oracle
