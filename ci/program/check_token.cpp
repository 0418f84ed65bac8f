// SPDX-License-Identifier: Apache-2.0
#include "ci/program/check_token.h"

#include <c10/util/Exception.h>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"
#include "suites/core/most_ranks.h"

namespace lockstep::program {
namespace {

using suites::kMostRanks;
constexpr int64_t kMostElements = int64_t{1} << 28;

void check_size(const oracle::Case& c, size_t i) {
  const auto& input = c.program.inputs[i];
  const Spec spec(c.mesh, c.placements[i].placements, input.shape, input.dtype);
  LOCKSTEP_CHECK(spec.numel() <= kMostElements / c.mesh.size(), "[replay] x", i, " of ", spec, " on mesh ",
                 c.mesh, " takes too much memory for one process; use smaller sizes");
}

}  // namespace

void check_case(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.mesh.size() <= kMostRanks, "[replay] mesh ", c.mesh, " has ", c.mesh.size(),
                 " ranks, and one process hosts them all; use at most ", kMostRanks);
  oracle::validate(c);
  for (size_t i = 0; i < c.program.inputs.size(); ++i) check_size(c, i);
  try {
    oracle::SimulatedSource source;
    oracle::evaluate(c, source);
  } catch (const c10::Error& e) {
    throw Error(concat("[replay] the token's program does not run on one device: ",
                       e.what_without_backtrace(), "; correct its shapes or arguments"));
  }
}

}  // namespace lockstep::program
