// SPDX-License-Identifier: Apache-2.0
// Trial: runs one Call on plain tensors of zeros to learn what it yields: shapes, dtypes, aliases, errors. It
// answers no question about values; the oracle's evaluation does.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "oracle/program/program.h"

namespace lockstep::generators {

using Lookup = std::function<const at::Tensor&(oracle::Ref)>;

// A tensor of zeros (of integers that are all above, the least) as the Input describes it: shape, dtype,
// memory order, requires_grad.
at::Tensor trial_input(const oracle::Input& input);

// The results of the call, flattened. `leaves` are the inputs that require grad, for lockstep::backward.
// Throws what libtorch throws.
std::vector<at::Tensor> trial_call(const oracle::Call& call, const Lookup& lookup,
                                   const std::vector<at::Tensor>& leaves);

// The same of a plain call, which throws where it draws: each rank would draw numbers of its own.
std::vector<at::Tensor> plain_trial_call(const oracle::Call& call, const Lookup& lookup,
                                         const std::vector<at::Tensor>& leaves);

// The arguments followed by the schema's defaults. Throws lockstep::Error for an unknown op.
std::vector<oracle::Arg> with_defaults(const std::string& op, std::vector<oracle::Arg> args);

// Every value of the Program by number, or nullopt where libtorch refuses one of its calls; random ops take
// what they take on the device, and draw zeros.
std::optional<std::vector<at::Tensor>> trial(const oracle::Program& program);

// The first value that each call defines.
std::vector<int64_t> first_results(const oracle::Program& program);
// Values that the arguments mention, without the undefined ones of a list.
std::vector<oracle::Ref> references(const oracle::Call& call);
// Those that the call writes to: in place, or as an out.
std::vector<oracle::Ref> written_by(const oracle::Call& call);

}  // namespace lockstep::generators
