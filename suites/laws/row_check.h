// SPDX-License-Identifier: Apache-2.0
// RowCheck: whether one combination of placements of an op is true, found by running the op on slices as the
// engine would, and putting the results together as the combination says.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/ops/rules/row.h"
#include "oracle/program/program.h"
#include "suites/laws/sample_call.h"

namespace lockstep::suites {

// The op that a case of one call makes, with its operands, on a mesh of one dimension.
class RowCheck {
 public:
  // Throws Error if the operands of the sample's op are not inputs of the case. @pre sample.logged
  RowCheck(const oracle::Case& c, const SampleCall& sample);
  ~RowCheck();

  size_t inputs() const;
  size_t outputs() const;
  // Input by input: those that a rule may name for it.
  std::vector<Placement> candidates(size_t input) const;

  // Of an op with one result: what it is when the inputs are placed so, each placement under which the ranks'
  // results are the plain answer. Empty if there is none, or a kernel refuses its slices.
  std::vector<Placement> true_outputs(const Placements& inputs) const;
  // True if the ranks' results, placed as the row says, are the plain answer in every bit; outside of the
  // integer lane also if numbers differ that the oracle explains (oracle/judge/check.h).
  bool holds(const Row& row) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::suites
