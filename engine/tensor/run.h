// SPDX-License-Identifier: Apache-2.0
// The kinds of ops, each run on every hosted rank, its results pushed to the stack and returned.
#pragma once
#include "engine/tensor/call.h"

namespace lockstep {

// run_values.cpp
std::vector<at::Tensor> run_values(const Dispatched& d, torch::jit::Stack& stack);
// A DTensor of an output's locals; undefined if the output is.
at::Tensor wrap(const Dispatched& d, size_t output, PerRank<at::Tensor> locals);

// run_in_place.cpp. In-place ops write to the locals and return the very arguments they were given.
std::vector<at::Tensor> run_in_place(const Dispatched& d, torch::jit::Stack& stack);

// run_random.cpp
std::vector<at::Tensor> run_random(const Dispatched& d, torch::jit::Stack& stack);

// run_scalar.cpp. A value read on the host: the same on every rank, or the ranks would part ways.
void run_scalar(const Dispatched& d, torch::jit::Stack& stack);

// out_variants.cpp. The functional op, then a copy; an empty out takes the result over. Needs no decision.
void run_out(const Dispatched& d, torch::jit::Stack& stack);

}  // namespace lockstep
