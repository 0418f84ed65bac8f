// SPDX-License-Identifier: Apache-2.0
// Words that are chosen, not drawn: the blocks of a generator whose state says so. The law stands in
// oracle/README.md, whose other implementation is oracle/random/random_forgery.h.
#pragma once
#include "engine/context/generator.h"
#include "kernels/philox.h"

namespace lockstep {

// What makes the blocks of a stream; philox, if it is not forged.
BlockFunction block_function(RandomWords words);

}  // namespace lockstep
