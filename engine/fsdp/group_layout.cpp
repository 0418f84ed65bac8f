// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/group_layout.h"

#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>

#include "engine/layout/layout.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

constexpr int64_t kAlignment = 64;  // bytes: what vector kernels and collectives ask for

void check(const std::vector<GroupTensor>& tensors, int64_t mesh_dim) {
  LOCKSTEP_CHECK(!tensors.empty(), "[fully_shard] a group of no tensors");
  const auto& first = *tensors.front().whole;
  for (const auto& [whole, granularity] : tensors) {
    LOCKSTEP_CHECK(whole->mesh() == first.mesh() && whole->dtype() == first.dtype(), "[fully_shard] ", *whole,
                   " in one group with ", first,
                   ": tensors of a group have one mesh and one dtype; wrap modules of another by themselves");
    for (int64_t d = 0; d < whole->mesh().ndim(); ++d) {
      const auto& p = whole->placements()[as_size(d)];
      LOCKSTEP_CHECK(is_replicate(p) || (d != mesh_dim && is_shard(p)), "[fully_shard] ", *whole,
                     ": a parameter is whole along ", whole->mesh().names()[as_size(mesh_dim)],
                     ", and whole or cut by a Shard along the others");
    }
  }
}

// How many elements each rank holds of it.
std::vector<int64_t> elements_of(const Spec& spec) {
  std::vector<int64_t> elements;
  for (int64_t p = 0; p < spec.mesh().size(); ++p)
    elements.push_back(c10::multiply_integers(local_shape(spec, p)));
  return elements;
}

// What the other mesh dimensions leave to the ranks along this one, at one coordinate, and each one's count
// of its elements.
struct Line {
  std::vector<int64_t> shape, counts;

  int64_t row(size_t leading) const {
    return c10::multiply_integers(shape.begin() + static_cast<ptrdiff_t>(leading), shape.end());
  }
  bool has_whole_rows(size_t leading) const {
    const int64_t n = row(leading);
    return n == 0 || std::all_of(counts.begin(), counts.end(), [n](int64_t count) { return count % n == 0; });
  }
};

// Each rank's count as units of rows of the fewest leading dimensions. Where there is nothing to hold, the
// first one holds it.
RaggedShard ragged(const std::vector<Line>& lines) {
  RaggedShard made{{}, {}, std::ssize(lines)};
  const auto fits = [&](const Line& line) { return line.has_whole_rows(made.dims.size()); };
  while (!std::all_of(lines.begin(), lines.end(), fits)) made.dims.push_back(std::ssize(made.dims));
  for (const auto& line : lines) {
    const int64_t n = line.row(made.dims.size());
    const bool empty = c10::multiply_integers(line.shape) == 0;
    for (size_t k = 0; k < line.counts.size(); ++k)
      made.units.push_back(empty ? (k == 0 ? 1 : 0) : line.counts[k] / n);
  }
  return made;
}

// Whether blocks of so many elements begin at the same places on all ranks: rows are of one length.
bool has_one_row(const Spec& spec) {
  std::set<std::vector<int64_t>> rows;
  for (int64_t p = 0; p < spec.mesh().size(); ++p) {
    auto shape = local_shape(spec, p);
    if (!shape.empty()) shape.erase(shape.begin());
    rows.insert(std::move(shape));
  }
  return rows.size() == 1;
}

}  // namespace

PlanOptions buffer_options(int64_t shards, Order order, std::initializer_list<c10::ScalarType> dtypes) {
  size_t least = kAlignment;
  for (const auto dtype : dtypes) least = std::min(least, c10::elementSize(dtype));
  const int64_t align = kAlignment / static_cast<int64_t>(least);
  return {.shards = shards, .alignment = align, .start_align = align, .order = order};
}

GroupLayout::GroupLayout(std::vector<GroupTensor> tensors, int64_t mesh_dim, Order order, GroupDtypes dtypes)
    : mesh_dim_(mesh_dim) {
  check(tensors, mesh_dim);
  const auto gathered_dtype = dtypes.gathered.value_or(tensors.front().whole->dtype());
  for (auto& [whole, granularity] : tensors) {
    const auto& all = elements_.emplace_back(elements_of(*whole));
    const int64_t most = *std::max_element(all.begin(), all.end());
    blocks_.push_back(
        {most, granularity == 1 || has_one_row(*whole) ? granularity : std::max<int64_t>(most, 1)});
    wholes_.push_back(std::move(whole));
  }
  const auto& one = *wholes_.front();
  plan_ = fsdp::plan(blocks_,
                     buffer_options(one.mesh().size(mesh_dim), order,
                                    {one.dtype(), gathered_dtype, dtypes.reduced.value_or(gathered_dtype)}));
  for (size_t i = 0; i < wholes_.size(); ++i) {
    const auto& mesh = wholes_[i]->mesh();
    std::vector<Line> lines;  // by coordinate of the others, row-major
    for (int64_t first = 0; first < mesh.size(); ++first) {
      if (place(first) != 0) continue;
      auto& line = lines.emplace_back(local_shape(*wholes_[i], first), std::vector<int64_t>());
      for (const int64_t position : mesh.line(first, mesh_dim)) {
        const auto part = in_tensor(i, position);
        line.counts.push_back(part.end - part.start);
      }
    }
    auto placements = wholes_[i]->placements();
    placements[as_size(mesh_dim)] = ragged(lines);
    sharded_.push_back(std::make_shared<const Spec>(wholes_[i]->with_placements(std::move(placements))));
    wholes_[i] = in_dtype(wholes_[i], gathered_dtype);
  }
}

int64_t GroupLayout::place(int64_t position) const {
  return wholes_.front()->mesh().coordinate(position)[as_size(mesh_dim_)];
}

Interval GroupLayout::in_shard(size_t i, int64_t position) const {
  const int64_t start = plan_.intervals[i].start, end = start + elements_[i][as_size(position)];
  const int64_t from = place(position) * plan_.shard_size, to = from + plan_.shard_size;
  const int64_t begin = std::clamp(start, from, to);
  return {begin - from, std::max(begin, std::min(end, to)) - from};
}

Interval GroupLayout::in_tensor(size_t i, int64_t position) const {
  const auto part = in_shard(i, position);
  if (part.start == part.end) return {};
  const int64_t shift = place(position) * plan_.shard_size - plan_.intervals[i].start;
  return {part.start + shift, part.end + shift};
}

}  // namespace lockstep::fsdp
