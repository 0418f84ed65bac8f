// SPDX-License-Identifier: Apache-2.0
// How an op runs on one rank where the stock op on the rank's locals is not enough: sizes that must become
// local ones, sums over nothing, vocabulary shards.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "engine/ops/rules/row.h"
#include "engine/values/spec.h"

namespace lockstep {

struct LocalCall {
  const c10::OperatorHandle& op;
  const OpCall& call;                  // the op on global tensors
  const std::vector<SpecPtr>& inputs;  // placed as the op runs; null for plain and undefined tensors
  const std::vector<SpecPtr>& outputs;
  int64_t position;  // in the mesh
};

// The stack holds the op's arguments with local tensors; replaced by the results.
using LocalRun = void (*)(const LocalCall&, torch::jit::Stack&);

namespace local {

void stock(const LocalCall& c, torch::jit::Stack& stack);
void as_one_of_many(const LocalCall& c, torch::jit::Stack& stack);  // arithmetic of halves and other dtypes
void sized(const LocalCall& c, torch::jit::Stack& stack);           // `size` is the output's shape
void sized_as_input(const LocalCall& c, torch::jit::Stack& stack);  // `input_sizes` is
void sized_and_strided(const LocalCall& c, torch::jit::Stack& stack);  // `size` and `stride` are
void view(const LocalCall& c, torch::jit::Stack& stack);               // a flat local stays what it is
void blocks(const LocalCall& c, torch::jit::Stack& stack);      // of a flat local what each result has of it
void squeeze(const LocalCall& c, torch::jit::Stack& stack);     // by the global sizes
void as_view(const LocalCall& c, torch::jit::Stack& stack);     // _reshape_alias
void as_strided(const LocalCall& c, torch::jit::Stack& stack);  // of what is cut, what changes nothing
void unless_empty(const LocalCall& c,
                  torch::jit::Stack& stack);  // results of nothing: not asked of the kernel
// A number that the dtype does not hold is taken where one element is filled, and refused where several or
// none are: so it is of the whole, whatever this rank has of it.
void filled(const LocalCall& c, torch::jit::Stack& stack);
void sized_filled(const LocalCall& c, torch::jit::Stack& stack);
void within_rows(const LocalCall& c, torch::jit::Stack& stack);  // of a flat local: the rows of its blocks
void reduction(const LocalCall& c, torch::jit::Stack& stack);  // of nothing: the identity of the pending kind
void contraction(const LocalCall& c, torch::jit::Stack& stack);  // over nothing: -0.0
void embedding(const LocalCall& c, torch::jit::Stack& stack);    // vocabulary shard: other rows are -0.0

}  // namespace local
}  // namespace lockstep
