// SPDX-License-Identifier: Apache-2.0
// Runs a Program on tensors of any kind: the oracle on plain ones, the suites on the engine's.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "engine/stream/random_source.h"
#include "oracle/plain/recording.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {

using Redistribute = std::function<at::Tensor(const at::Tensor&, const Target&)>;
// A factory's result where its call says: the target stands in place of the device.
using Factory = std::function<at::Tensor(const Call&, const Target&)>;

// Every value of the Program by number, inputs first; unused gradients are undefined. The inputs are the
// leaves: those that require a gradient are marked so. An in-place call's result is the tensor it wrote to.
// Throws Error if a call yields another number of tensors than the Program says; else what libtorch throws.
// Without a `factory`, factories make plain tensors.
std::vector<at::Tensor> run(const Program& program, std::vector<at::Tensor> inputs,
                            const Redistribute& redistribute, const Factory& factory = nullptr);

// The plain answer: run on the global inputs, random ops drawing from `random` with the Program's seed.
std::vector<at::Tensor> evaluate(const Case& c, RandomSource& random);

// The same, recorded.
struct PlainRun {
  std::vector<at::Tensor> inputs;  // as they were placed, before any call wrote to them
  std::vector<at::Tensor> values;
  Recording recording;
  RandomState random_after;
};
PlainRun evaluate_recorded(const Case& c, RandomSource& random);

// The same in float64: floating inputs and dtype arguments are double; random ops draw what they drew in the
// plain run, whose values give the dtypes. For showing what a value ought to be.
struct Float64Run {
  std::function<void(std::vector<at::Tensor>& inputs)> change = nullptr;  // of the inputs, before it begins
  Recording* recording = nullptr;                                         // of its ops
};
std::vector<at::Tensor> evaluate_f64(const Case& c, RandomSource& random,
                                     const std::vector<at::Tensor>& plain, const Float64Run& how = {});

}  // namespace lockstep::oracle
