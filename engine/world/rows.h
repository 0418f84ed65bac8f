// SPDX-License-Identifier: Apache-2.0
// Two slabs of one form, row by row: as long rows as lie in one piece in both.
#pragma once
#include "engine/world/slab.h"

namespace lockstep {

template <class F>
void each_row(char* to, const char* from, const Slab& into, const Slab& source, int64_t dim, int64_t last,
              const F& row) {
  if (dim > last) return row(to, from);
  const auto element = static_cast<int64_t>(into.of.element_size());
  const int64_t step = into.of.stride(dim) * element, by = source.of.stride(dim) * element;
  const F each = row;  // here, where no row can write to it
  for (int64_t left = into.size(dim); left > 0; --left, to += step, from += by)
    if (dim == last)  // most are here: no call
      each(to, from);
    else
      each_row(to, from, into, source, dim + 1, last, row);
}

// `row(to, from, bytes)` for each; false, and nothing done, where a row would be one element of many, or is
// in a device's memory. @pre of one dtype and of the same sizes, with elements
template <class F>
bool each_row(const Slab& into, const Slab& source, const F& row) {
  if (!into.of.is_cpu() || !source.of.is_cpu()) return false;
  const auto element = static_cast<int64_t>(into.of.element_size());
  int64_t bytes = element, last = into.of.dim() - 1;
  const auto goes_on = [&](at::IntArrayRef strides) { return strides[last] * element == bytes; };
  for (; last >= 0 && (into.size(last) == 1 || (goes_on(into.of.strides()) && goes_on(source.of.strides())));
       --last)
    bytes *= into.size(last);
  if (last >= 0 && into.size(into.of.dim() - 1) > 1 && bytes == element) return false;
  each_row(into.mutable_data_ptr(), source.const_data_ptr(), into, source, 0, last,
           [row, bytes](char* to, const char* from) { row(to, from, bytes); });
  return true;
}

}  // namespace lockstep
