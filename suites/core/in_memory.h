// SPDX-License-Identifier: Apache-2.0
// How the values of a Program lie in the memory of each rank, against how they lie on one device: what is a
// view there is one here, and what is a tensor of its own there shares memory with nothing here.
#pragma once
#include <optional>
#include <string>
#include <unordered_set>

#include "oracle/program/program.h"
#include "suites/core/engine_under_test.h"

namespace lockstep::suites {

using Storages = std::unordered_set<const c10::StorageImpl*>;

struct LiesElsewhere {
  size_t value = 0;
  const char* verdict = "";  // "stride", "memory"
  std::string text;
};

// Laws, on every rank, of what has elements:
// 1. The part of a dense value is dense, its dimensions in the order of the whole's; a flat part is one run.
// 2. A storage is of one rank and of one storage of the single device.
// 3. Where values of the single device share elements, theirs are the same elements here; they may be copies
//    where an op says of what it views that it is new (_unsafe_view).
// 4. Elements of one storage follow each other as on the single device, unless a part is flat.
// @pre the values are those of the Program: defined where `plain` is, of its shapes and dtypes.
// What is outside of the mesh, as the Program has it, is one tensor, whoever asks.
// @param outside storages of `plain` that may be so, too, though other operands of their op were not: one
// tensor or one for each rank
std::optional<LiesElsewhere> lies_elsewhere(const oracle::Case& c, const std::vector<at::Tensor>& plain,
                                            const std::vector<EngineValue>& values, const Storages& outside);

}  // namespace lockstep::suites
