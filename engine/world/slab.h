// SPDX-License-Identifier: Apache-2.0
// Slab: a tensor, or of one of its dimensions an interval. What at::narrow gives, but no tensor is made of it
// before somebody asks for one: an all-to-all of n ranks names 2 n^2 of them.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep {

struct Slab {
  Slab(at::Tensor tensor) : of(std::move(tensor)) {}
  Slab(at::Tensor tensor, int64_t along, int64_t from, int64_t n)
      : of(std::move(tensor)), dim(along), start(from), length(n) {}

  at::Tensor of;
  int64_t dim = -1;  // -1: all of it
  int64_t start = 0, length = 0;

  int64_t size(int64_t d) const { return d == dim ? length : of.size(d); }
  int64_t numel() const;
  bool empty() const { return (dim >= 0 && length == 0) || of.numel() == 0; }
  int64_t nbytes() const { return numel() * static_cast<int64_t>(of.element_size()); }
  // Of its first element. @pre it has one
  const char* const_data_ptr() const { return static_cast<const char*>(of.const_data_ptr()) + offset(); }
  char* mutable_data_ptr() const { return static_cast<char*>(of.mutable_data_ptr()) + offset(); }
  at::Tensor tensor() const;

 private:
  // Bytes from the tensor's first element.
  int64_t offset() const {
    return dim < 0 ? 0 : start * of.stride(dim) * static_cast<int64_t>(of.element_size());
  }
};

bool same_sizes(const Slab& a, const Slab& b);

}  // namespace lockstep
