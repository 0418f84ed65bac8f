// SPDX-License-Identifier: Apache-2.0
// Stretches of a Program in which nothing moves but by its own redistributions: means that pend, and orders
// that are kept.
#include <bit>

#include "generators/cases/edges.h"
#include "generators/ops/makers.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

constexpr OpTemplate kMean{"aten::mean", kReductions, nullptr, kFloats, Grow::kMean, kMoves};
constexpr OpTemplate kScaled{"aten::mul.Scalar", kScalars, nullptr, kFloats, kProduct, kMoves};

// Dimension 0 cut over mesh dimensions that divide it; in the integer lane the mean is over a power of two.
struct Cut {
  oracle::Target target;
  Shape shape;
};
Cut draw_cut(Builder& b) {
  const auto& mesh = b.settings().mesh;
  const bool lane = b.settings().integer_lane;
  Cut cut{replicated(mesh), {b.random().between(1, 2), b.random().pick<int64_t>({1, 2, 4})}};
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    const bool fits = !lane || std::has_single_bit(static_cast<uint64_t>(mesh.size(d)));
    if (!fits || b.random().chance(20)) continue;
    cut.target.placements[static_cast<size_t>(d)] = Shard{0};
    cut.shape[0] *= mesh.size(d);
  }
  return cut;
}

}  // namespace

void let_mean_pend(Builder& b) {
  const auto cut = draw_cut(b);
  const Ref whole = b.operand({.dtypes = kFloats, .shape = cut.shape});
  const Ref x = b.redistribute(whole, cut.target);
  if (x == whole || !b.call(oracle::kSetExplicitRedistribution.data(), {true})) return;
  const bool all = b.random().chance(40);
  const auto count = all ? b.tensor(x).numel() : b.tensor(x).size(0);
  const OpTemplate mean{
      all ? kMean.op : "aten::mean.dim", kReductions, nullptr, kFloats, Grow::kMean, kMoves};
  const auto made = all ? b.exactly(mean.op, {x, None{}}, grown(b, mean, {x}, count))
                        : b.exactly(mean.op, {x, std::vector<int64_t>{0}, b.random().chance(40), None{}},
                                    grown(b, mean, {x}, count));
  if (made) {
    Ref y = b.results()[0];
    if (b.random().chance(40)) {
      auto growth = grown(b, kScaled, {y});
      growth.result = growth.result * magnitude_of(2.0);
      growth.factors = {magnitude_of(2.0)};
      if (b.exactly(kScaled.op, {y, int64_t{2}}, growth)) y = b.results()[0];
    }
    if (b.random().chance(70)) b.redistribute(y);
  }
  b.call(oracle::kSetExplicitRedistribution.data(), {false});
}

void keep_order(Builder& b) {
  const auto& mesh = b.settings().mesh;
  if (mesh.ndim() < 2) return let_mean_pend(b);
  oracle::Target target{Placements(static_cast<size_t>(mesh.ndim()), Shard{0}), {}};
  for (int64_t d = mesh.ndim(); d-- > 0;) target.order.push_back(d);
  const Ref x = b.fresh(
      {.dtypes = kFloats, .shape = Shape{b.random().between(1, 2) * mesh.size()}, .placement = target});
  const Ref number = b.fresh({.dtypes = bit_of(b.dtype(x)), .shape = Shape{}, .placement = replicated(mesh)});
  if (!b.call(oracle::kSetExplicitRedistribution.data(), {true})) return;
  const auto& op = template_of("aten::add.Tensor");
  b.exactly(op.op, {x, number, int64_t{1}}, grown(b, op, {x, number}));
  b.call(oracle::kSetExplicitRedistribution.data(), {false});
}

}  // namespace lockstep::generators
