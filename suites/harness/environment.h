// SPDX-License-Identifier: Apache-2.0
// Where a run happens: processor, compiler, library, source and binary, for the store.
#pragma once
#include <string>

#include "dashboard/store/rows.h"

namespace lockstep::suites {

// Fills build_hash, commit, cpu, compiler, libtorch, version (of Lockstep), cores, started_ms and a fresh id.
void describe_environment(dashboard::Run& run);
// A run that begins here and now and plans no suites: what train, curves, init and bench record.
dashboard::Run run_without_plan(std::string command, std::string numerics, uint64_t seed = 0);
int processors();  // that this process may use
// Of the source, found at build time: "1a2b3c4d5e6f", with "+dirty" if the tree had changes; "unknown"
// outside a checkout.
std::string commit();

}  // namespace lockstep::suites
