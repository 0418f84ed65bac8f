// SPDX-License-Identifier: Apache-2.0
// A Case some of whose calls are a block that runs again on the way back.
#pragma once
#include "generators/space/random.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// The same Case, or with a checkpoint around some calls that stand together. Where draws are restored every
// value and gradient is what it was. Nothing is enclosed where a call would then be refused by libtorch.
oracle::Case with_checkpoint(oracle::Case c, Random random);

}  // namespace lockstep::generators
