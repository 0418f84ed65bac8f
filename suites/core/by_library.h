// SPDX-License-Identifier: Apache-2.0
// Cases in which ranks reduce by the library's own collectives, `--reduce library`: an option of the Case, so
// that its token says it.
#pragma once
#include "oracle/program/program.h"

namespace lockstep::suites {

bool is_by_library(const oracle::Case& c);
void make_by_library(oracle::Case& c);
// The same moves of an input of more than 1 MiB, where Gloo cuts its buffers into more segments.
// @pre the Program redistributes one input and does nothing else that knows its shape.
oracle::Case enlarged(oracle::Case c);

}  // namespace lockstep::suites
