// SPDX-License-Identifier: Apache-2.0
#include "engine/world/bits.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <cstring>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/rows.h"

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

// For short rows a call costs more than the copy. A functor, so that it is no call itself.
struct CopyRow {
  void operator()(char* to, const char* from, int64_t bytes) const {
    constexpr int64_t kWord = 16, kShort = 16 * kWord;
    if (bytes > kShort || bytes % kWord != 0) {
      std::memcpy(to, from, as_size(bytes));
      return;
    }
    for (int64_t at = 0; at < bytes; at += kWord) std::memcpy(to + at, from + at, kWord);
  }
};

}  // namespace

void copy_bits(const Slab& into, const Slab& from) {
  if (into.empty()) return;
  if (each_row(into, from, CopyRow{}))
    into.of.unsafeGetTensorImpl()->bump_version();
  else
    into.tensor().copy_(from.tensor());
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
