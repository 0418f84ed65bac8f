// SPDX-License-Identifier: Apache-2.0
#include "engine/world/bits.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <cstring>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// The same memory as integers of the width of its elements.
at::Tensor integers(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return tensor.view(at::kChar);
    case 2:
      return tensor.view(at::kShort);
    case 4:
      return tensor.view(at::kInt);
    case 8:
      return tensor.view(at::kLong);
    default:
      throw Error(concat("[world] elements of ", tensor.element_size(), " bytes are none that Worlds move"));
  }
}

// As many bytes of it as an element has.
int64_t poison_of(const at::Tensor& integers) {
  return static_cast<int64_t>(0xb5b5b5b5b5b5b5b5) >> (64 - 8 * integers.element_size());
}

// Row by row, from dimension `dim` on, which begins at these addresses.
void copy_rows(char* to, const char* source, const at::Tensor& into, const at::Tensor& from, int64_t dim) {
  const auto element = static_cast<int64_t>(into.element_size());
  if (dim + 1 >= into.dim()) {
    std::memcpy(to, source, static_cast<size_t>((into.dim() == 0 ? 1 : into.size(dim)) * element));
    return;
  }
  for (int64_t i = 0; i < into.size(dim); ++i)
    copy_rows(to + i * into.stride(dim) * element, source + i * from.stride(dim) * element, into, from,
              dim + 1);
}

bool has_rows(const at::Tensor& tensor) {
  return tensor.is_cpu() && (tensor.dim() == 0 || tensor.size(-1) == 1 || tensor.stride(-1) == 1);
}

}  // namespace

void copy_bits(const at::Tensor& into, const at::Tensor& from) {
  if (into.numel() == 0) return;
  if (!has_rows(into) || !has_rows(from)) {
    into.copy_(from);
    return;
  }
  auto* to = static_cast<char*>(into.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  if (into.is_contiguous() && from.is_contiguous())
    std::memcpy(to, source, from.nbytes());
  else
    copy_rows(to, source, into, from, 0);
  into.unsafeGetTensorImpl()->bump_version();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && integers(a).equal(integers(b));
}

void poison(const at::Tensor& tensor) {
  auto all = integers(tensor);
  all.fill_(poison_of(all));
}

bool is_poisoned(const at::Tensor& tensor) {
  const auto all = integers(tensor);
  return all.eq(poison_of(all)).all().item<bool>();
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !a.is_alias_of(b)) return false;
  return at::get_overlap_status(a, b) != at::MemOverlapStatus::No;
}

}  // namespace lockstep
