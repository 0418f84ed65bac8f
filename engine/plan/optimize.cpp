// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/optimize.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "engine/layout/route.h"
#include "engine/plan/hoisting.h"
#include "engine/plan/traced_rows.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using enum PlanPhase;

bool is_one_place(const PlanRow& a, const PlanRow& b) {
  return a.phase == b.phase && a.tensor == b.tensor && a.index == b.index && a.op == b.op;
}

bool meet(const TracedRow& a, const TracedRow& b) {
  return std::any_of(a.moves.begin(), a.moves.end(), [&](const auto& x) {
    return std::any_of(b.moves.begin(), b.moves.end(), [&](const auto& y) { return x.module == y.module; });
  });
}

// Not of gradients: what a hook takes of them is added up before anybody else's.
void drop_idle(TracedRows& traced) {
  for (auto& row : traced.rows) {
    const bool is_forward = row.row.phase == kForwardPre || row.row.phase == kForwardPost;
    const bool is_idle = !row.gone && is_forward && !row.moves.empty() &&
                         std::none_of(row.moves.begin(), row.moves.end(), [](auto& m) { return m.moved(); });
    if (!is_idle) continue;
    traced.changes.push_back(concat("left out, since nothing moves by it: ", row.row));
    row.gone = true;
  }
}

// The move of `next` that takes each of what the moves of `row` leave, and that nothing else takes or reads;
// empty: it is not so.
std::vector<const TracedMove*> takers(const TracedRows& traced, const TracedRow& row, const TracedRow& next) {
  if (row.moves.empty() || row.moves.size() != next.moves.size()) return {};
  std::vector<const TracedMove*> all;
  for (const auto& move : row.moves) {
    const auto taken = traced.that_take(move.left);
    const bool is_alone = taken.size() == 1 && taken[0].row == &next && !move.sums_several() &&
                          !taken[0].move->sums_several() && !traced.reads.is_written(move.left) &&
                          !traced.reads.is_written(taken[0].move->left) &&
                          !traced.reads.any(move.left, traced.reads.from(move.read));
    if (!is_alone) return {};
    all.push_back(taken[0].move);
  }
  return all;
}

// Where all of these go round and come back: where that is, of which no mesh dimension pends.
std::optional<Placements> comes_back_to(const TracedRow& row, const std::vector<const TracedMove*>& moves) {
  std::optional<Placements> all;
  for (size_t i = 0; i < moves.size(); ++i) {
    const auto &came = placements(row.moves[i].came), &left = placements(moves[i]->left);
    if (came != left) return std::nullopt;
    if (std::any_of(came.begin(), came.end(), [](auto& p) { return is_partial(p); })) return std::nullopt;
    if (all && *all != came) return std::nullopt;
    all = came;
  }
  return all;
}

bool any_comes_back(const TracedRow& row, const std::vector<const TracedMove*>& moves) {
  for (size_t i = 0; i < moves.size(); ++i)
    if (placements(row.moves[i].came) == placements(moves[i]->left)) return true;
  return false;
}

int64_t bytes_between(const Spec& from, const Spec& to) {
  return route(std::make_shared<const Spec>(from), std::make_shared<const Spec>(to)).bytes();
}

// Right there no more is sent than by the stop: terms that are added up and scattered first are fewer.
// @param moves that take what those of the row leave; null: none does
bool is_shorter(const TracedRow& row, const std::vector<const TracedMove*>& moves) {
  int64_t by_stops = 0, right_there = 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (moves[i] == nullptr) continue;
    const auto &came = spec(row.moves[i].came), &stop = spec(row.moves[i].left), &left = spec(moves[i]->left);
    by_stops += bytes_between(came, stop) + bytes_between(stop, left);
    right_there += bytes_between(came, left);
  }
  return right_there <= by_stops;
}

// The same of gradients, from where they came to what leaves.
bool is_shorter_back(const TracedRow& row, const std::vector<const TracedMove*>& moves) {
  const auto whole_terms = [](const Spec& spec) { return spec.with_placements(dual(spec.placements())); };
  int64_t by_stops = 0, right_there = 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (moves[i] == nullptr || moves[i]->gradient == nullptr || !*moves[i]->gradient) continue;
    const auto came = whole_terms(spec(row.moves[i].came)), stop = whole_terms(spec(row.moves[i].left));
    const auto from = came.with_placements(**moves[i]->gradient);
    by_stops += bytes_between(from, stop) + bytes_between(stop, came);
    right_there += bytes_between(from, came);
  }
  return right_there <= by_stops;
}

// Of each move of the row the one of `next` that takes what it leaves; null: none does.
std::vector<const TracedMove*> followers(const TracedRow& row, const TracedRow& next) {
  std::vector<const TracedMove*> all;
  for (const auto& move : row.moves) {
    const auto found = std::find_if(next.moves.begin(), next.moves.end(), [&](const TracedMove& taken) {
      return taken.came.is_same(move.left) && taken.module == move.module;
    });
    all.push_back(found == next.moves.end() ? nullptr : &*found);
  }
  return all;
}

bool has_gradient_row(const TracedRows& traced, const TracedRow& of) {
  return std::any_of(traced.rows.begin(), traced.rows.end(), [&](const TracedRow& row) {
    return !row.gone && row.row.phase == kBackwardPre && meet(row, of);
  });
}

// What comes back stays where it is, and its gradient goes there still, from wherever it comes.
bool skip_a_stop(TracedRows& traced, TracedRow& row, TracedRow& next) {
  const auto& [a, b] = std::tie(row.row, next.row);
  const bool may_be = a.phase == kForwardPost && b.phase == kForwardPre && a.mesh_dims == b.mesh_dims &&
                      std::none_of(a.to.begin(), a.to.end(), [](auto& to) { return is_partial(to); });
  if (!may_be || row.gone || next.gone) return false;
  const auto moves = takers(traced, row, next);
  if (moves.empty()) return false;
  const auto back = comes_back_to(row, moves);
  if (back ? has_gradient_row(traced, row) || !is_shorter_back(row, moves)
           : any_comes_back(row, moves) || !is_shorter(row, moves))
    return false;
  auto said = concat(a, " goes right to where ", b, " takes it");
  for (size_t i = 0; i < moves.size(); ++i) row.moves[i].goes_on(*moves[i]);
  row.row.to = back.value_or(b.to);
  if (back) {
    row.row.phase = kBackwardPre;
    row.row.mesh_dims = spec(row.moves[0].came).mesh().names();  // as a redistribution's gradient is
    row.row.from.reset();
    row.row.starts_early = false;
    said += concat(", which is where it was: only its gradient is moved, ", row.row);
  }
  traced.changes.push_back(std::move(said));
  next.gone = true;
  return true;
}

void skip_stops(TracedRows& traced) {
  bool again = true;
  while (again) {
    again = false;
    for (auto& row : traced.rows)
      for (auto& next : traced.rows) again |= skip_a_stop(traced, row, next);
  }
}

// Whether a row between the two acts where they do: sums would be added up in another order.
bool is_parted(const TracedRows& traced, size_t i, size_t k) {
  const auto& row = traced.rows[i];
  return std::any_of(traced.rows.begin() + static_cast<ptrdiff_t>(i) + 1,
                     traced.rows.begin() + static_cast<ptrdiff_t>(k), [&](const TracedRow& between) {
                       return !between.gone && is_one_place(row.row, between.row) && meet(row, between);
                     });
}

void merge(TracedRows& traced, size_t i, size_t k) {
  auto &row = traced.rows[i], &next = traced.rows[k];
  auto &a = row.row, &b = next.row;
  const bool may_be = a.op.empty() && !is_annotation(a) && !is_of_parameters(a.phase);
  const auto sums_several = [](const TracedMove& move) { return move.sums_several(); };
  if (row.gone || next.gone || !may_be || std::any_of(row.moves.begin(), row.moves.end(), sums_several) ||
      std::any_of(next.moves.begin(), next.moves.end(), sums_several) || a.module != b.module ||
      !is_one_place(a, b) || a.from.has_value() != b.from.has_value() || a.starts_early != b.starts_early ||
      is_parted(traced, i, k))
    return;
  const auto after = followers(row, next);
  if (!is_shorter(row, after) || !is_shorter_back(row, after)) return;
  const auto before = concat(a, " and ", b);
  a.to.insert(a.to.end(), b.to.begin(), b.to.end());
  if (a.from) a.from->insert(a.from->end(), b.from->begin(), b.from->end());
  a.mesh_dims.insert(a.mesh_dims.end(), b.mesh_dims.begin(), b.mesh_dims.end());
  for (size_t m = 0; m < after.size(); ++m)
    if (after[m] != nullptr) row.moves[m].goes_on(*after[m]);
  next.gone = true;
  traced.changes.push_back(concat(before, " are one: ", a));
}

void begin_early(TracedRows& traced) {
  for (auto& row : traced.rows) {
    if (row.gone || row.row.phase != kForwardPost || row.row.starts_early || row.moves.empty()) continue;
    const bool is_used = std::all_of(row.moves.begin(), row.moves.end(), [&](const TracedMove& move) {
      if (traced.reads.is_written(move.came)) return false;  // while it is being sent
      return !traced.that_take(move.left).empty() ||
             traced.reads.any(move.left, traced.reads.from(move.read));
    });
    if (!is_used) continue;
    row.row.starts_early = true;
    traced.changes.push_back(concat("begun early: ", row.row));
  }
}

}  // namespace

OptimizedPlan optimize(const ParallelPlan& plan, const PlanTrace& trace, const OptimizeOptions& options) {
  TracedRows traced(plan, trace);
  drop_idle(traced);
  if (options.reorders_sums) hoist(traced);
  skip_stops(traced);
  drop_idle(traced);
  for (size_t k = 0; k < traced.rows.size(); ++k)
    for (size_t i = 0; i < k; ++i) merge(traced, i, k);
  begin_early(traced);
  std::vector<PlanRow> rows;
  for (auto& row : traced.rows)
    if (!row.gone) rows.push_back(std::move(row.row));
  return {ParallelPlan(std::move(rows)), std::move(traced.changes)};
}

}  // namespace lockstep
