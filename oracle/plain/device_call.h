// SPDX-License-Identifier: Apache-2.0
// An op of values in the host's memory, by the kernel of a device.
#pragma once
#include <vector>

#include "oracle/program/schema.h"

namespace lockstep::oracle {

// Law: what is returned and what is written is what the device's kernel gives for these operands, which lie
// there as they lie here; views are taken here. Numbers that libtorch wrapped stay in the host's memory,
// where it keeps them. A device among the arguments is this one.
std::vector<at::Tensor> call_on(c10::Device device, const Operator& op, torch::jit::Stack& stack);

// The same by copies of the operands, also where the device is the CPU. Not of views.
std::vector<at::Tensor> call_there(c10::Device device, const Operator& op, torch::jit::Stack& stack);

}  // namespace lockstep::oracle
