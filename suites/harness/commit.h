// SPDX-License-Identifier: Apache-2.0
// The source's commit, found at build time by ci/cmake.
#pragma once
#include <string>

namespace lockstep::suites {

std::string commit();  // "1a2b3c4d5e6f", with "+dirty" if the tree had changes; "unknown" outside a checkout

}  // namespace lockstep::suites
