// SPDX-License-Identifier: Apache-2.0
// Share: which elements of a tensor one rank holds, and the moving of elements between tensor and rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::oracle {

using Indices = std::vector<int64_t>;

// Elements [begin, end) of some that are counted.
struct Run {
  int64_t begin = 0, end = 0;
  bool operator==(const Run&) const = default;
};

// The global indices along each tensor dimension, in local order: every combination of them. Under
// RaggedShard `run` says which of these combinations, counted row-major; the local tensor then has one
// dimension.
struct Share {
  std::vector<Indices> lists;
  std::optional<Run> run;
  bool operator==(const Share&) const = default;

  std::vector<int64_t> shape() const;  // of the local tensor
  // The global index of the element at this local one.
  Indices global_index(const Indices& local) const;
};

// The row-major element `number` of a tensor of this shape.
Indices unravel(int64_t number, at::IntArrayRef shape);

// Copies what the share holds of `global` to `local`, and back.
void copy_out(const at::Tensor& global, const Share& share, const at::Tensor& local);
void copy_in(const at::Tensor& local, const Share& share, const at::Tensor& global);

}  // namespace lockstep::oracle
