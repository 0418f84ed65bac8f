// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/planner.h"

#include <algorithm>
#include <numeric>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

// Whether it may start there: within it no shard ends but between two blocks.
bool may_start(const Blocks& t, int64_t start, int64_t size, const ShardsAsked& asked) {
  const int64_t end = start + t.elements;
  if (start < 0 || start % asked.start_align != 0 || end > asked.shards * size) return false;
  for (int64_t boundary = size; boundary < end; boundary += size)
    if (boundary > start && !begins(t, boundary - start)) return false;
  return true;
}

// Each where it may start first: a later start of one leaves no more room to the others.
bool fit(const std::vector<Blocks>& tensors, int64_t size, const ShardsAsked& asked) {
  int64_t from = 0;
  for (const auto& t : tensors) {
    while (from + t.elements <= asked.shards * size && !may_start(t, from, size, asked)) ++from;
    from += t.elements;
    if (from > asked.shards * size) return false;
  }
  return true;
}

template <class Key>
std::vector<Blocks> largest_first(std::vector<Blocks> tensors, const Key& key) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const Blocks& a, const Blocks& b) { return key(a) > key(b); });
  return tensors;
}

}  // namespace

bool begins(const Blocks& t, int64_t element) {
  return (t.period == 0 ? element : element % t.period) % t.block == 0;
}

std::string unlawful(const std::vector<Blocks>& tensors, const std::vector<Place>& places, int64_t size,
                     const ShardsAsked& asked) {
  if (places.size() != tensors.size())
    return concat(places.size(), " places of ", tensors.size(), " tensors");
  if (size % asked.alignment != 0 || size % asked.start_align != 0)
    return concat("shards of ", size, " elements are not aligned");
  auto sorted = places;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first < sorted[i - 1].second)
      return concat("two tensors have element ", sorted[i].first, " of the buffer");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [start, end] = places[i];
    if (end - start != tensors[i].elements)
      return concat("tensor ", i, " of ", tensors[i].elements, " elements has ", end - start);
    if (size > 0 && !may_start(tensors[i], start, size, asked))
      return concat("tensor ", i, " of blocks of ", tensors[i].block, ", anew after ", tensors[i].period,
                    ", from ", start, " to ", end, ", is cut within a block, or lies beyond ", asked.shards,
                    " shards of ", size);
  }
  return "";
}

int64_t least_size(const std::vector<Blocks>& tensors, const ShardsAsked& asked) {
  const auto is_empty = [](const Blocks& t) { return t.elements == 0; };
  if (std::all_of(tensors.begin(), tensors.end(), is_empty)) return 0;
  const int64_t step = std::lcm(asked.alignment, asked.start_align);
  int64_t size = step;
  while (!fit(tensors, size, asked)) size += step;
  return size;
}

std::vector<Blocks> by_block(std::vector<Blocks> tensors) {
  return largest_first(std::move(tensors), [](const Blocks& t) { return t.block; });
}
std::vector<Blocks> by_elements(std::vector<Blocks> tensors) {
  return largest_first(std::move(tensors), [](const Blocks& t) { return t.elements; });
}

}  // namespace lockstep::oracle
