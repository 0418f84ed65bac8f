// SPDX-License-Identifier: Apache-2.0
// Writes what the engine did as a log of digests, in the form that `lockstep curves import --hashes` reads.
#pragma once
#include <string>

#include "engine/values/timeline.h"

namespace lockstep::program {

// One JSON object for each entry and rank: {"step","seq","op","rank","phase","inputs","outputs"}. `phase` is
// "implicit" for redistributions that the engine inserted. Throws Error if the file cannot be written.
void write_hash_log(const std::string& path, const Timeline& timeline);

}  // namespace lockstep::program
