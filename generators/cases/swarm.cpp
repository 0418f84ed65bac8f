// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/swarm.h"

#include "generators/ops/ops.h"
#include "generators/space/meshes.h"

namespace lockstep::generators {
namespace {

uint32_t some_of(Random& random, uint32_t all, int64_t percent) {
  uint32_t kept = 0;
  for (uint32_t bit = 1; bit != 0 && bit <= all; bit <<= 1)
    if ((all & bit) && random.chance(percent)) kept |= bit;
  return kept;
}

}  // namespace

Settings draw_settings(Random& random, const Profile& profile) {
  Settings settings{.mesh = draw_mesh(random, profile.max_ranks)};
  settings.dtypes = some_of(random, kAllDtypes, 45) | random.weighted<uint32_t>({{4, kF32}, {1, kF64}});
  settings.placements = some_of(random, kAllPlacements & ~kShards, 65) | (random.chance(93) ? kShards : 0u);
  settings.families = some_of(random, kAllFamilies, 55);
  if (settings.families == 0) settings.families = kAllFamilies;
  settings.integer_lane = random.chance(profile.integer_lane);
  settings.backward = random.chance(profile.backward);
  settings.specials = !settings.integer_lane && random.chance(profile.specials);
  if (profile.exact_terms) {
    // Sums round and products have signed zeros by the number of their terms.
    settings.placements &= ~(settings.integer_lane ? kProducts : kProducts | kSums);
    settings.specials = false;
  }
  settings.strided = random.chance(45);
  settings.varied = profile.varied;
  settings.outs = profile.outs;
  settings.refused = profile.refused;
  settings.max_numel = random.chance(70) ? profile.max_numel / 2 : profile.max_numel;
  return settings;
}

DeviceModel draw_device(Random& random) {
  return random.weighted<DeviceModel>({{2, {1, 256}}, {2, {2, 512}}, {1, {3, 1024}}, {2, {132, 2048}}});
}

}  // namespace lockstep::generators
