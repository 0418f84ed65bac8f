// SPDX-License-Identifier: Apache-2.0
// Initialisers and layers that the reference model has none of, by torch's C++ frontend on one device.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>

namespace lockstep::oracle {

struct ReferenceInit {
  const char* name;  // as torch.nn.init calls it
  void (*run)(at::Tensor weight);
};
// kaiming_* with a = 0.2, xavier_* with a gain of 2, orthogonal_ with one of 1.5; trunc_normal_, which the
// C++ frontend lacks, by its definition in the Python one: of mean 0.5, deviation 2, between -1 and 3, and
// standard between -2 and 2.
std::span<const ReferenceInit> reference_inits();

struct ReferenceLinear {
  at::Tensor weight, bias;  // no bias: undefined
};
// torch.nn.Linear with its first values.
ReferenceLinear reference_linear(int64_t in, int64_t out, bool bias);

}  // namespace lockstep::oracle
