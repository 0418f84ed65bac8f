// SPDX-License-Identifier: Apache-2.0
// Runs a Program on tensors of any kind: the oracle on plain ones, the suites on the engine's.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "engine/stream/random_source.h"
#include "oracle/plain/recompute.h"
#include "oracle/plain/recording.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {

// What those statements of a Program that are about placements mean on tensors of one kind.
struct Placing {
  std::function<at::Tensor(const at::Tensor&, const Target&)> redistribute;
  // The whole as a plain tensor.
  std::function<at::Tensor(const at::Tensor&)> full_tensor;
  // What the host reads: the number of a lockstep::item, the answer of a lockstep::equal.
  std::function<at::Tensor(std::string_view op, const std::vector<at::Tensor>& of)> read;
  // An op on the local tensors of each rank.
  std::function<at::Tensor(const LocalMap&, const std::vector<at::Tensor>& operands)> local_map;
  // A factory's result where its call says: the target stands in place of the device. Without it, factories
  // make plain tensors.
  std::function<at::Tensor(const Call&, const Target&)> factory = nullptr;
  // A checkpoint: what its block gives for operands, and is asked for again on the way back.
  std::function<std::vector<at::Tensor>(const RunBlock&, const std::vector<at::Tensor>& operands,
                                        bool preserves_rng_state)>
      checkpoint = recomputed;
  // From now on a redistribution that the Program does not say is refused, or is not. Without it, nothing
  // moves.
  std::function<void(bool)> set_explicit = nullptr;
};

// What the host reads of these tensors, as an operand that counts as a number.
at::Tensor read_number(std::string_view op, const std::vector<at::Tensor>& of);

// The op of a local_map on the local tensors of one rank.
at::Tensor run_mapped(const LocalMap& map, const std::vector<at::Tensor>& locals);

// Every value of the Program by number, inputs first; unused gradients are undefined. The inputs are the
// leaves: those that require a gradient are marked so. An in-place call's result is the tensor it wrote to.
// Throws Error if a call yields another number of tensors than the Program says; else what libtorch throws.
std::vector<at::Tensor> run(const Program& program, std::vector<at::Tensor> inputs, const Placing& placing);

// The single device has no kernel for an op of the Program: there is no plain answer.
struct NoKernel : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The plain answer: run on the global inputs, on the device of the mesh, random ops drawing from `random`
// with the Program's seed. Values stay on the device.
std::vector<at::Tensor> evaluate(const Case& c, RandomSource& random);

// The same, recorded.
struct PlainRun {
  std::vector<at::Tensor> inputs;  // as they were placed, before any call wrote to them
  std::vector<at::Tensor> values;
  Recording recording;
  RandomState random_after;
};
// Throws NoKernel where a CUDA device refuses what libtorch's CPU takes; of the CPU what libtorch throws.
PlainRun evaluate_recorded(const Case& c, RandomSource& random);

// The same in float64, in the host's memory: floating inputs and dtype arguments are double; random ops draw
// what they drew in the plain run, whose values give the dtypes. For showing what a value ought to be.
struct Float64Run {
  std::function<void(std::vector<at::Tensor>& inputs)> change = nullptr;  // of the inputs, before it begins
  Recording* recording = nullptr;                                         // of its ops
};
std::vector<at::Tensor> evaluate_f64(const Case& c, RandomSource& random,
                                     const std::vector<at::Tensor>& plain, const Float64Run& how = {});

}  // namespace lockstep::oracle
