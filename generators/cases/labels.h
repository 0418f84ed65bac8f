// SPDX-License-Identifier: Apache-2.0
// Labels: what a case has, by name, so that a run can say what it covered and a plan what it must cover.
#pragma once
#include <string>
#include <vector>

#include "oracle/program/program.h"

namespace lockstep::generators {

// Sorted, without repetition:
//   mesh-1d … mesh-3d, one-rank, unequal-mesh, named-mesh · uneven, empty-shard, size-0, size-1 ·
//   nested-shard, other-order, interleaved · partial-sum … · f64 … bool, mixed-dtypes · in-place, view, list,
//   random, backward, several-leaves, optimizer, redistribute, reuse · strided, special-values, integer-lane
//   · words-zeros … words-edges (of a stream that is forged) · full-tensor, host-read, plain-input ·
//   local-map, mesh-sub, mesh-flat, no-grad, hook, accumulate, double-backward
std::vector<std::string> labels(const oracle::Case& c);

// Every label that labels() may give, but for those of statements.
const std::vector<std::string>& all_labels();
// Beside those: "full_tensor" of lockstep::full_tensor and so on, as "statement full_tensor" and, where a
// backward comes behind whose roots depend on what the statement gave (on nothing, where it gives nothing),
// as "statement full_tensor, backward".
std::vector<std::string> statement_labels();

}  // namespace lockstep::generators
