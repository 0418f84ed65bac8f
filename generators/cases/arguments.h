// SPDX-License-Identifier: Apache-2.0
// Which arguments a case gives another value than their default: what the ledger counts beside labels.
#pragma once
#include <string>
#include <vector>

#include "oracle/program/program.h"

namespace lockstep::generators {

// "aten::sum(dtype)": of each call, each argument that could stay at its default and does not; and each
// dimension that is counted from the end, "aten::sum.dim_IntList(dim<0)". Sorted, each once.
std::vector<std::string> arguments(const oracle::Case& c);
// Those of one operator that arguments() can name.
std::vector<std::string> arguments_of(const std::string& op);
// Those of every operator that cases call by its name.
std::vector<std::string> all_arguments();

}  // namespace lockstep::generators
