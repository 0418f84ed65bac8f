// SPDX-License-Identifier: Apache-2.0
// RowCheck: whether one combination of placements of an op is true, found by running the op on slices as the
// engine would, and putting the results together as the combination says.
#pragma once
#include <vector>

#include "engine/ops/rules/row.h"
#include "oracle/plain/recording.h"
#include "oracle/program/schema.h"
#include "suites/laws/sample_call.h"

namespace lockstep::suites {

// The op that a case of one call makes, with its operands, on a mesh of one dimension.
class RowCheck {
 public:
  // Throws Error if the operands of the sample's op are not inputs of the case. @pre sample.logged
  RowCheck(const oracle::Case& c, const SampleCall& sample);

  size_t inputs() const { return sources_.size(); }
  size_t outputs() const { return unplaced_.answers.size(); }
  // Input by input: those that a rule may name for it.
  std::vector<Placement> candidates(size_t input) const;

  // Of an op with one result: what it is when the inputs are placed so, each placement under which the ranks'
  // results are the plain answer. Empty if there is none, or a kernel refuses its slices.
  std::vector<Placement> true_outputs(const Placements& inputs) const;
  // True if the ranks' results, placed as the row says, are the plain answer in every bit; outside of the
  // integer lane also if numbers differ that the oracle explains (oracle/judge/check.h).
  bool holds(const Row& row) const;

 private:
  // The op on whole tensors, as one device runs it.
  struct Plain {
    oracle::Recording recording;
    std::vector<at::Tensor> inputs, answers;
  };
  // The op on the slices of all ranks, as the engine runs it.
  struct Held {
    std::vector<SpecPtr> in, out;
    std::vector<std::vector<at::Tensor>> locals, results;  // [tensor][position]
  };

  oracle::Case placed(size_t input, const Placement& p) const;
  torch::jit::Stack stack_of(const std::vector<at::Tensor>& tensors) const;
  Plain plain(const Placements& inputs) const;
  Held place(const Row& row, const Plain& whole) const;
  bool run(Held& held) const;
  bool explained(const Plain& whole, const Held& held) const;

  oracle::Case case_;
  SampleCall sample_;
  const oracle::Operator& op_;
  std::vector<int64_t> sources_;  // for each input of the op, the case's
  std::vector<bool> defined_;     // for each tensor of the call, lists flattened: it is an input
  std::vector<int64_t> tensors_per_arg_;
  Plain unplaced_;  // with every input Replicate
};

}  // namespace lockstep::suites
