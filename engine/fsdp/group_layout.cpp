// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/group_layout.h"

#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>

#include <algorithm>

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

// Each rank's count of elements as units of rows of the fewest leading dimensions.
RaggedShard ragged(const std::vector<int64_t>& counts, const std::vector<int64_t>& shape) {
  int64_t row = c10::multiply_integers(shape);
  if (row == 0) {  // nothing to hold, which the first rank does
    std::vector<int64_t> units(counts.size(), 0);
    units.front() = 1;
    return {{}, units};
  }
  RaggedShard made;
  const auto is_whole = [&row](int64_t count) { return count % row == 0; };
  for (const int64_t size : shape) {
    if (std::all_of(counts.begin(), counts.end(), is_whole)) break;
    made.dims.push_back(std::ssize(made.dims));
    row /= size;
  }
  for (const int64_t count : counts) made.units.push_back(count / row);
  return made;
}

PlanOptions options(const Spec& first, int64_t mesh_dim, Order order, c10::ScalarType gathered) {
  const auto least = std::min(c10::elementSize(first.dtype()), c10::elementSize(gathered));
  const int64_t align = kAlignment / static_cast<int64_t>(least);
  return {.shards = first.mesh().size(mesh_dim), .alignment = align, .start_align = align, .order = order};
}

}  // namespace

GroupLayout::GroupLayout(std::vector<GroupTensor> tensors, int64_t mesh_dim, Order order,
                         std::optional<c10::ScalarType> gathered)
    : mesh_dim_(mesh_dim) {
  check(tensors, mesh_dim);
  const auto gathered_dtype = gathered.value_or(tensors.front().whole->dtype());
  std::vector<BlockTensor> blocks;
  for (auto& [whole, granularity] : tensors) {
    const auto& all = elements_.emplace_back(elements_of(*whole));
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    blocks.push_back({*most, *least == *most ? granularity : *most});
    wholes_.push_back(std::move(whole));
  }
  plan_ = fsdp::plan(blocks, options(*wholes_.front(), mesh_dim, order, gathered_dtype));
  for (size_t i = 0; i < wholes_.size(); ++i) {
    std::vector<int64_t> counts;
    const int64_t fullest = std::max_element(elements_[i].begin(), elements_[i].end()) - elements_[i].begin();
    for (const int64_t position : wholes_[i]->mesh().line(fullest, mesh_dim)) {
      const auto part = in_tensor(i, position);
      counts.push_back(part.end - part.start);
    }
    auto placements = wholes_[i]->placements();
    placements[as_size(mesh_dim)] = ragged(counts, local_shape(*wholes_[i], fullest));
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
