// SPDX-License-Identifier: Apache-2.0
// The ops whose dispatch is measured: small, so that what an op computes does not hide what leads to it.
#pragma once
#include <c10/core/ScalarType.h>

#include "suites/bench/body.h"

namespace lockstep::suites {

// Of an op, on a mesh of one dimension.
struct Operand {
  const char* placements;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

struct Op {
  const char* name;
  const char* reached;  // the overload that arrives below autograd; null: none that could be run without us
  std::vector<Operand> operands;
  std::vector<at::Tensor> (*run)(const std::vector<at::Tensor>& x);
  // Whether StaticEager runs it on plain tensors: not what draws, writes, reads a value, tells by values how
  // large it is, or has a kernel of its own for a rank's part.
  bool is_static = true;
  bool draws = false;
};
const std::vector<Op>& dispatch_ops();

// Operands as DTensors, and as what each rank holds: tensors of its own, for ops that write.
struct Operands {
  std::vector<at::Tensor> distributed;
  std::vector<std::vector<at::Tensor>> locals;  // [rank]
};
// Of n rows and columns.
Operands operands(const Op& op, int64_t ranks, int64_t n);

// Each rank's results have the bits of the plain op on what it holds; of an op that draws, all of them have
// those of the oracle's numbers for the whole. Throws WrongBits.
void check(const Op& op, const Operands& on);
// The plain op on what each rank holds.
void run_plain(const Op& op, const Operands& on);

// "dispatch mm, cached, 1 rank"
dashboard::Series dispatch_series(const Op& op, const std::string& how);

}  // namespace lockstep::suites
