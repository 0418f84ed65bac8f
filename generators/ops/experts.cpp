// SPDX-License-Identifier: Apache-2.0
// Makers of what a mixture of experts needs. Half of the grouped products find their rows cut where the
// blocks and the experts of a rank end, which rows drawn anyhow never are.
#include <algorithm>
#include <numeric>

#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Of n rows, how many go to each of so many experts: any number, also none.
std::vector<int64_t> drawn_counts(Random& random, int64_t n, int64_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts), 0);
  for (int64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(random.below(experts))];
  return counts;
}

struct GroupedRows {
  Ref rows;
  std::vector<int64_t> counts;
  int64_t blocks = 1;
};

GroupedRows anyhow(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  GroupedRows made{b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2}), {}, random.between(1, 3)};
  made.counts = drawn_counts(random, b.tensor(made.rows).size(0), made.blocks * random.between(1, 4));
  return made;
}

// Along one mesh dimension a rank has the rows of its experts, along another, if there is one, a block.
GroupedRows where_experts_end(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  const DeviceMesh& mesh = b.settings().mesh;
  const int64_t of_experts = random.below(mesh.ndim()), of_blocks = random.below(mesh.ndim());
  const bool one = of_blocks == of_experts;
  const int64_t ranks = mesh.size(of_experts), each = random.between(1, 6), experts = random.between(1, 5);
  GroupedRows made{{}, {}, one ? 1 : mesh.size(of_blocks)};
  std::vector<std::vector<int64_t>> units;  // of each block, for each rank
  for (int64_t block = 0; block < made.blocks; ++block) {
    const auto counts = drawn_counts(random, each, experts);
    made.counts.insert(made.counts.end(), counts.begin(), counts.end());
    auto& own = units.emplace_back(static_cast<size_t>(ranks), 0);
    const int64_t piece = (experts + ranks - 1) / ranks;
    for (int64_t e = 0; e < experts; ++e)
      own[static_cast<size_t>(e / piece)] += counts[static_cast<size_t>(e)];
  }
  RaggedShard ragged{{0}, {}, 1};
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const auto coordinate = mesh.coordinate(position);
    if (coordinate[static_cast<size_t>(of_experts)] != 0) continue;
    const auto& own = units[static_cast<size_t>(one ? 0 : coordinate[static_cast<size_t>(of_blocks)])];
    ragged.units.insert(ragged.units.end(), own.begin(), own.end());
    if (one) break;
  }
  ragged.lists = std::ssize(ragged.units) / ranks;
  oracle::Target target{Placements(static_cast<size_t>(mesh.ndim()), Replicate{}), {}};
  if (!one) target.placements[static_cast<size_t>(of_blocks)] = Shard{0};
  target.placements[static_cast<size_t>(of_experts)] = ragged;
  made.rows = b.fresh({.dtypes = op.dtypes,
                       .shape = Shape{each * made.blocks, random.between(1, 4)},
                       .placement = std::move(target)});
  return made;
}

}  // namespace

bool grouped_linear(Builder& b, const OpTemplate& op) {
  const bool placed = b.random().chance(50) && !b.is_outside();
  const auto [x, counts, blocks] = placed ? where_experts_end(b, op) : anyhow(b, op);
  const int64_t experts = std::ssize(counts) / blocks, features = b.tensor(x).size(1);
  const Ref w = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{experts, -1, features}});
  const auto times = [](int64_t n) { return Magnitude{static_cast<double>(std::max<int64_t>(n, 1)), 0}; };
  return b.call(op.op, {x, w, counts, blocks},
                {b.magnitude(x) * b.magnitude(w) * times(features),
                 {b.magnitude(w) * times(b.tensor(w).size(1)), b.magnitude(x) * times(b.tensor(x).size(0))},
                 true});
}

// By the order that sorts other numbers.
bool permute_rows(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2});
  auto leading = b.shape(x);
  leading.pop_back();
  const int64_t rows = std::accumulate(leading.begin(), leading.end(), int64_t{1}, std::multiplies<>());
  if (b.random().chance(50)) leading = {rows};
  Ref order = b.fresh({.dtypes = kI64, .shape = Shape{rows}, .grad = false});
  Ref places[2];
  for (Ref& next : places) {
    if (!b.exactly("aten::sort.stable", {order, true, int64_t{0}, false}, {b.magnitude(order), {}}))
      return false;
    next = order = b.results()[1];
  }
  return emit(b, op, {x, places[0], places[1], leading}, {x});
}

}  // namespace lockstep::generators
