// SPDX-License-Identifier: Apache-2.0
// In which cases a fault can act at all.
#pragma once
#include <functional>
#include <string_view>

#include "oracle/program/program.h"

namespace lockstep::suites {

using Touches = std::function<bool(const oracle::Case& c)>;

bool any(const oracle::Case& c);
bool many_ranks(const oracle::Case& c);
bool has_backward(const oracle::Case& c);
bool has_random(const oracle::Case& c);
bool writes(const oracle::Case& c);  // in place
// Some call's op is one of the overloads of `name` ("aten::mm"), or its in-place variant.
Touches calls(std::string_view name);
// Some call or its backward may be, by one of these stems of the name, with blanks between them: "add" is in
// add_, addmm, _foreach_add.
Touches mentions(std::string_view stems);

Touches on_ranks(Touches touches);          // and there are several
Touches pending_on_ranks(Touches touches);  // and something is Partial

}  // namespace lockstep::suites
