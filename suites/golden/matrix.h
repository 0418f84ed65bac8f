// SPDX-License-Identifier: Apache-2.0
// The cells that golden/record records: operators, arguments, dtypes, sizes on both sides of where a launch
// changes, memory orders, seeds and offsets.
#pragma once
#include "suites/golden/golden.h"

namespace lockstep::suites {

// @post no cell twice; every operator of stock libtorch in stock_ops() but composites of others occurs.
std::vector<RandomCell> golden_matrix(const DeviceModel& device);

// Just beyond 2 GiB, where stock splits a tensor into several launches: known by some elements.
std::vector<RandomCell> golden_giants(const DeviceModel& device);

}  // namespace lockstep::suites
