// SPDX-License-Identifier: Apache-2.0
// Where a run happens: processor, compiler, library, source and binary, for the store.
#pragma once
#include <string>

#include "dashboard/rows.h"

namespace lockstep::suites {

// Fills build_hash, commit, cpu, compiler, libtorch, cores, started_ms and a fresh id.
void describe_environment(dashboard::Run& run);
int64_t now_ms();  // since the epoch, UTC
int processors();  // that this process may use

}  // namespace lockstep::suites
