// SPDX-License-Identifier: Apache-2.0
// Random ops that libtorch composes of others, on DTensors.
#pragma once

namespace lockstep {

// Does nothing; keeps the registrations in a static link.
void link_random_composites();

}  // namespace lockstep
