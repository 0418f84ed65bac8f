// SPDX-License-Identifier: Apache-2.0
#include "engine/world/bits.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// The same memory as integers of the width of its elements.
at::Tensor integers(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return tensor.view(at::kByte);
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

int64_t poison_of(const at::Tensor& integers) {
  switch (integers.scalar_type()) {
    case at::kByte:
      return 0xb5;
    case at::kShort:
      return static_cast<int16_t>(0xb5b5);
    case at::kInt:
      return static_cast<int32_t>(0xb5b5b5b5);
    default:
      return static_cast<int64_t>(0xb5b5b5b5b5b5b5b5);
  }
}

}  // namespace

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
