// SPDX-License-Identifier: Apache-2.0
// Padding: what lies in a shard between tensors, NaN from the start, which nobody writes.
#pragma once
#include <string>

#include "engine/fsdp/dbuffer.h"

namespace lockstep::suites {

// On which rank it has been written. Empty: on none.
std::string written_padding(const fsdp::DBuffer& buffer);

}  // namespace lockstep::suites
