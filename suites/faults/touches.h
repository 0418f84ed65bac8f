// SPDX-License-Identifier: Apache-2.0
// In which cases a fault can act at all.
#pragma once
#include <string_view>

#include "oracle/program/program.h"

namespace lockstep::suites {

// Some call's op is one of the overloads of `name` ("aten::mm"), or its in-place variant.
bool calls(const oracle::Case& c, std::string_view name);
// Some call or its backward may be, by the stem of the name: "add" is in add_, addmm, _foreach_add.
bool mentions(const oracle::Case& c, std::string_view stem);
bool has_backward(const oracle::Case& c);
bool has_partial(const oracle::Case& c);
bool has_random(const oracle::Case& c);
bool many_ranks(const oracle::Case& c);

}  // namespace lockstep::suites
