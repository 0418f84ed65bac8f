// SPDX-License-Identifier: Apache-2.0
// Rectangles of a tensor's elements: what ranks hold, as files have it.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "engine/layout/layout.h"

namespace lockstep::dcp {

// Along each dimension the indices from start on.
struct Box {
  std::vector<Interval> sides;

  std::vector<int64_t> shape() const;
  int64_t numel() const;
  bool operator==(const Box&) const = default;
};
Box whole(const std::vector<int64_t>& shape);
// What both have; empty: nothing (a tensor without dimensions has one element, and a box without sides).
std::optional<Box> common(const Box& a, const Box& b);
// The elements of `box` in a tensor that has those of `of`. @pre they are within
at::Tensor part(const at::Tensor& tensor, const Box& of, const Box& box);

// Law: disjoint, in an order that the Spec and the position alone decide, and together what the rank holds.
std::vector<Box> boxes(const Spec& spec, int64_t position);
// Each as a view of the rank's local tensor.
std::vector<at::Tensor> views(const at::Tensor& local, const Spec& spec, int64_t position);
// Whether no position before this one holds the same elements, which ranks along what replicates do.
bool is_first(const Spec& spec, int64_t position);

}  // namespace lockstep::dcp
