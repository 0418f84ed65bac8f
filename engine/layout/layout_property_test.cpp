// SPDX-License-Identifier: Apache-2.0
// The laws of layout.h on drawn Specs: up to three mesh dimensions, nested and interleaved shards in any
// order.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/layout/layout.h"
#include "engine/values/ragged.h"

namespace lockstep {
namespace {

using rc::gen::inRange;

Placement any_placement(int64_t ndim) {
  const auto dim = *inRange<int64_t>(0, ndim);
  switch (*inRange(0, 4)) {
    case 0:
      return Replicate{};
    case 1:
      return InterleavedShard{dim, *inRange<int64_t>(1, 4)};
    case 2:
      return Partial{};
    default:
      return Shard{dim};
  }
}

Spec any_spec() {
  const auto ndim = *inRange<int64_t>(1, 4), mesh_dims = *inRange<int64_t>(1, 4);
  std::vector<int64_t> shape, mesh, order(static_cast<size_t>(mesh_dims));
  Placements placements;
  for (int64_t d = 0; d < ndim; ++d) shape.push_back(*inRange<int64_t>(0, 14));
  for (int64_t m = 0; m < mesh_dims; ++m) {
    mesh.push_back(*inRange<int64_t>(1, 5));
    placements.push_back(any_placement(ndim));
  }
  std::iota(order.begin(), order.end(), 0);
  for (size_t m = order.size(); m > 1; --m) std::swap(order[m - 1], order[*inRange<size_t>(0, m)]);
  return Spec(DeviceMesh(mesh), placements, shape, contiguous_strides(shape), c10::kFloat, order);
}

// Units whose sum divides the rows.
std::vector<int64_t> any_units(int64_t rows, int64_t ranks) {
  std::vector<int64_t> sums, units(static_cast<size_t>(ranks), 0);
  for (int64_t sum = 1; sum <= 20; ++sum)
    if (rows % sum == 0) sums.push_back(sum);
  for (auto left = *rc::gen::elementOf(sums); left > 0; --left) ++units[*inRange<size_t>(0, units.size())];
  return units;
}

// The same with a RaggedShard on one mesh dimension, of one list of units, or one for each coordinate of the
// others.
Spec any_ragged_spec() {
  auto spec = any_spec();
  auto placements = spec.placements();
  const auto dim = *inRange<int64_t>(0, spec.mesh().ndim()), leading = *inRange<int64_t>(0, spec.ndim() + 1);
  auto& placed = placements[static_cast<size_t>(dim)];
  placed = Replicate{};
  const auto& mesh = spec.mesh();
  RaggedShard ragged{{}, {}, 0};
  for (int64_t d = 0; d < leading; ++d) ragged.dims.push_back(d);
  std::map<int64_t, std::vector<int64_t>> lists;  // by the first position of those that have the same rows
  const auto add = [&](int64_t rows, int64_t first) {
    auto& units = lists[first];
    if (units.empty()) units = any_units(rows, mesh.size(dim));
    ragged.units.insert(ragged.units.end(), units.begin(), units.end());
    ++ragged.lists;
  };
  const bool one = *rc::gen::arbitrary<bool>();
  if (one) add(common_rows(placements, spec.order(), mesh, spec.shape(), ragged.dims.size()), 0);
  for (int64_t p = 0; p < mesh.size() && !one; ++p)
    if (mesh.coordinate(p)[static_cast<size_t>(dim)] == 0)
      add(rows_at(placements, spec.order(), mesh, spec.shape(), ragged.dims.size(), p),
          first_of_box(placements, mesh, p));
  placed = ragged;
  return spec.with_placements(placements, spec.order());
}

// How many ranks hold each element, row-major.
std::vector<int64_t> holders_of_elements(const Spec& spec) {
  std::vector<int64_t> count(static_cast<size_t>(spec.numel()), 0);
  const auto stride = contiguous_strides(spec.shape());
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    int64_t at = 0;
    for (const auto& piece : pieces(owned_by(spec, position))) {
      RC_ASSERT(piece.start == at);
      std::vector<int64_t> elements = {0};
      for (size_t d = 0; d < piece.lists.size(); ++d) {
        std::vector<int64_t> longer;
        for (const auto before : elements)
          for (int64_t i = 0; i < length(piece.lists[d]); ++i)
            longer.push_back(before + global_index(piece.lists[d], i) * stride[d]);
        elements = std::move(longer);
      }
      for (const auto element : elements) ++count.at(static_cast<size_t>(element));
      at += static_cast<int64_t>(elements.size());
    }
    RC_ASSERT(at == numel(owned_by(spec, position)));
  }
  return count;
}

// Catches: blocks counted from the wrong rank or twice, pieces that lose the end of a row, beside shards of
// any kind and order.
TEST(LayoutProperty, RaggedSharesHoldEachElementOncePerReplica) {
  EXPECT_TRUE(rc::check("ragged", [] {
    const auto spec = any_ragged_spec();
    RC_LOG() << spec << " on " << spec.mesh() << "\n";
    int64_t copies = spec.mesh().size();
    for (size_t m = 0; m < spec.placements().size(); ++m)
      if (distributes(spec.placements()[m])) copies /= spec.mesh().shape()[m];
    for (const auto count : holders_of_elements(spec)) RC_ASSERT(count == copies);
  }));
}

// How many ranks hold each index along one dimension, where the other dimensions do not matter.
std::vector<int64_t> holders(const Spec& spec, size_t dim) {
  std::vector<int64_t> count(static_cast<size_t>(spec.shape()[dim]), 0);
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    const auto owned = owned_by(spec, position);
    for (const auto& part : owned.lists[dim])
      for (int64_t i = 0; i < part.length; ++i) ++count.at(static_cast<size_t>(part.start + i));
  }
  return count;
}

// Along a tensor dimension each index is held by as many ranks as do not cut that dimension. Catches:
// overlaps and holes of nested, interleaved and uneven shards, an index out of range.
TEST(LayoutProperty, EachIndexIsHeldByThoseThatDoNotCutIt) {
  EXPECT_TRUE(rc::check("holders", [] {
    const auto spec = any_spec();
    RC_LOG() << spec << " on " << spec.mesh() << "\n";
    for (size_t dim = 0; dim < spec.shape().size(); ++dim) {
      int64_t copies = spec.mesh().size();
      for (size_t m = 0; m < spec.placements().size(); ++m)
        if (shard_dim(spec.placements()[m]) == static_cast<int64_t>(dim)) copies /= spec.mesh().shape()[m];
      for (const auto count : holders(spec, dim)) RC_ASSERT(count == copies);
    }
  }));
}

// Catches: a list that is out of order or not merged, a local shape that is not that of the lists.
TEST(LayoutProperty, ListsAreSortedAndMerged) {
  EXPECT_TRUE(rc::check("lists", [] {
    const auto spec = any_spec();
    RC_LOG() << spec << " on " << spec.mesh() << "\n";
    const auto position = *inRange<int64_t>(0, spec.mesh().size());
    const auto owned = owned_by(spec, position);
    for (size_t dim = 0; dim < spec.shape().size(); ++dim) {
      const auto& list = owned.lists[dim];
      RC_ASSERT(length(list) == local_shape(spec, position)[dim]);
      for (size_t i = 1; i < list.size(); ++i)
        RC_ASSERT(list[i - 1].start + list[i - 1].length < list[i].start);
    }
  }));
}

// A part of a list holds what the list holds there. Catches: slices that count globally, empty ends.
TEST(LayoutProperty, SlicesKeepTheirGlobalIndices) {
  EXPECT_TRUE(rc::check("slices", [](const std::vector<std::pair<uint8_t, uint8_t>>& gaps) {
    IndexList list;
    int64_t at = 0;
    for (const auto& [gap, size] : gaps) {
      list.push_back({at + gap % 7, 1 + size % 9});
      at = list.back().start + list.back().length + 1;
    }
    const auto n = length(list);
    const auto begin = *inRange<int64_t>(0, n + 1), end = *inRange<int64_t>(begin, n + 1);
    const auto part = slice(list, begin, end);
    RC_ASSERT(length(part) == end - begin);
    for (int64_t i = begin; i < end; ++i) RC_ASSERT(global_index(part, i - begin) == global_index(list, i));
  }));
}

}  // namespace
}  // namespace lockstep
