// SPDX-License-Identifier: Apache-2.0
// Whether the Case of a token can be judged at all. A token is text that people edit: what is wrong with it
// is a mistake of the caller, not of the engine and not of the harness.
#pragma once
#include "oracle/program/program.h"

namespace lockstep::program {

// @post the Case can be placed on its mesh, its operators exist, and its program runs on one device. Throws
// Error that names the input or operator; @pre an untrusted case may take its process along (memory).
void check_case(const oracle::Case& c);

}  // namespace lockstep::program
