// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/route.h"

#include <c10/core/ScalarTypeToTypeMeta.h>

#include <algorithm>

#include "engine/layout/held.h"
#include "engine/layout/library_order.h"
#include "engine/layout/standing.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

int64_t element_size(const Spec& spec) {
  return static_cast<int64_t>(c10::elementSize(spec.dtype()));
}

// Builds a route step by step, keeping the Spec reached so far.
class Planner {
 public:
  Planner(const SpecPtr& from, const SpecPtr& to) : route_{from, to, {}}, now_(from), to_(to) {}

  Route plan() {
    check();
    if (now_->mesh() != to_->mesh()) return across();
    // What is cut on the way first: then the others add up parts. Flat locals are not cut again.
    reduce_to([](const Placement& p) { return distributes(p) && !is_ragged(p); });
    reduce_to(is_ragged);
    reduce_to([](const Placement&) { return true; });
    move();
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d) make_partial(d);
    return std::move(route_);
  }

 private:
  const Placement& now(int64_t d) const { return now_->placements()[as_size(d)]; }
  const Placement& target(int64_t d) const { return to_->placements()[as_size(d)]; }

  void check() const {
    LOCKSTEP_CHECK(now_->shape() == to_->shape() && now_->dtype() == to_->dtype(), "[redistribute] ",
                   to_string(*now_), " and ", to_string(*to_),
                   " differ in more than placements; redistribute keeps shape and dtype");
  }

  // What pends is whole before it goes to another mesh.
  Route across() {
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d)
      if (is_partial(now(d))) all_reduce(d);
    const auto whole =
        std::make_shared<const Spec>(to_->with_placements(dual(to_->placements()), to_->order()));
    step(StepKind::kExchange, -1, whole, received(*whole));
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d) make_partial(d);
    return std::move(route_);
  }

  void step(StepKind kind, int64_t mesh_dim, SpecPtr next, int64_t bytes) {
    route_.steps.push_back({kind, mesh_dim, now_, next, bytes});
    now_ = std::move(next);
  }

  SpecPtr with(int64_t mesh_dim, const Placement& placement, std::vector<int64_t> order) const {
    auto placements = now_->placements();
    placements[as_size(mesh_dim)] = placement;
    return std::make_shared<const Spec>(now_->with_placements(std::move(placements), std::move(order)));
  }

  void reduce_to(bool (*wanted)(const Placement& target)) {
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d)
      if (is_partial(now(d)) && now(d) != target(d) && wanted(target(d))) reduce(d);
  }

  void reduce(int64_t d) {
    const int64_t m = now_->mesh().size(d), terms = held_by_all(*now_) * element_size(*now_);
    if (!distributes(target(d)) || is_flat(*now_)) return all_reduce(d);
    if (is_ragged(target(d)) && others_stay(d))
      return step(StepKind::kReduceScatter, d, with(d, target(d), now_->order()), terms / m * (m - 1));
    if (now_->shape().empty()) return all_reduce(d);  // which a RaggedShard cuts, and no Shard
    // The scattered piece nests inside what already cuts its dimension. Where the target is cut otherwise it
    // moves on from there, and both together are no more bytes than the whole on every rank: of that a line
    // of ranks keeps each element once, which is no more than the terms that it need not receive.
    const Shard scattered{is_ragged(target(d)) ? 0 : shard_dim(target(d))};
    step(StepKind::kReduceScatter, d, with(d, scattered, innermost(now_->order(), d)), terms / m * (m - 1));
  }

  void all_reduce(int64_t d) {
    const int64_t terms = held_by_all(*now_) * element_size(*now_);
    step(StepKind::kAllReduce, d, with(d, Replicate{}, now_->order()), terms * (now_->mesh().size(d) - 1));
  }

  // What the other mesh dimensions cut is cut in the target, too, so that the pieces of a flat local are the
  // target's.
  bool others_stay(int64_t d) const {
    for (int64_t other = 0; other < now_->mesh().ndim(); ++other) {
      const bool reduced = is_partial(now(other)) && is_replicate(target(other));
      if (other != d && now(other) != target(other) && !reduced) return false;
    }
    return now_->order() == to_->order();
  }

  // Where the elements have to be before new Partials are made.
  SpecPtr destination() const {
    Placements placements;
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d)
      placements.push_back(now(d) != target(d) && is_partial(target(d)) ? Replicate{} : target(d));
    return std::make_shared<const Spec>(now_->with_placements(std::move(placements), to_->order()));
  }

  void move() {
    const auto next = destination();
    if (*next == *now_) return;
    const int64_t bytes = received(*next);
    if (bytes == 0) return step(StepKind::kSlice, -1, next, 0);
    std::vector<int64_t> changed;
    for (int64_t d = 0; d < now_->mesh().ndim(); ++d)
      if (now(d) != next->placements()[as_size(d)]) changed.push_back(d);
    if (changed.size() == 1 && std::holds_alternative<Shard>(now(changed[0])) && !is_flat(*now_) &&
        is_innermost(*now_, changed[0])) {
      const int64_t d = changed[0];
      const auto& after = next->placements()[as_size(d)];
      if (!is_ragged(after) && *next == *with(d, after, now_->order())) {
        if (is_replicate(after)) return step(StepKind::kAllGather, d, next, bytes);
        if (std::holds_alternative<Shard>(after) && is_innermost(*next, d))
          return step(StepKind::kAllToAll, d, next, bytes);
      }
    }
    step(StepKind::kExchange, -1, next, bytes);
  }

  // From other ranks, all ranks together.
  int64_t received(const Spec& next) const {
    return (held_by_all(next) - kept_by_all(*now_, next)) * element_size(*now_);
  }

  void make_partial(int64_t d) {
    if (now(d) == target(d)) return;
    step(StepKind::kMakePartial, d, with(d, target(d), now_->order()), 0);
  }

  Route route_;
  SpecPtr now_;
  const SpecPtr to_;
};

// Where the values of `a` stand in `b`, as local indices of each, interval by interval, in ascending order of
// b.
struct Match {
  IndexList in_a, in_b;
};

void extend(Match& m, int64_t at_a, int64_t at_b, int64_t n) {
  const auto follows = [](const IndexList& list, int64_t start) {
    return !list.empty() && list.back().start + list.back().length == start;
  };
  if (follows(m.in_a, at_a) && follows(m.in_b, at_b)) {
    m.in_a.back().length += n;
    m.in_b.back().length += n;
  } else {
    m.in_a.push_back({at_a, n});
    m.in_b.push_back({at_b, n});
  }
}

Match match(const IndexList& a, const IndexList& b) {
  Match result;
  int64_t at_b = 0;
  for (const auto& y : b) {
    int64_t at_a = 0;
    for (const auto& x : a) {
      const int64_t from = std::max(x.start, y.start), to = std::min(x.start + x.length, y.start + y.length);
      if (from < to) extend(result, at_a + from - x.start, at_b + from - y.start, to - from);
      at_a += x.length;
    }
    at_b += y.length;
  }
  return result;
}

Region region_of(const Owned& owned, const Piece& piece) {
  Region region;
  if (owned.flat.has_value()) region.run = {piece.start, piece.shape()};
  return region;
}

Holding held_at(const Spec& spec, int64_t position) {
  auto owned = owned_by(spec, position);
  auto parts = pieces(owned);
  return {std::move(owned), std::move(parts)};
}

// What two pieces have in common, in each; nullopt: nothing.
std::optional<std::pair<Region, Region>> common(const Owned& a, const Piece& in_a, const Owned& b,
                                                const Piece& in_b) {
  std::pair<Region, Region> found{region_of(a, in_a), region_of(b, in_b)};
  for (size_t dim = 0; dim < in_a.lists.size(); ++dim) {
    auto m = match(in_a.lists[dim], in_b.lists[dim]);
    if (m.in_b.empty()) return std::nullopt;
    found.first.lists.push_back(std::move(m.in_a));
    found.second.lists.push_back(std::move(m.in_b));
  }
  return found;
}

std::vector<Transfer> transfers(const Holding& from, const Holding& to) {
  std::vector<Transfer> found;
  for (const auto& has : from.pieces)
    for (const auto& wants : to.pieces)
      if (auto both = common(from.owned, has, to.owned, wants); both.has_value())
        found.push_back({std::move(both->first), std::move(both->second)});
  return found;
}

}  // namespace

std::vector<Transfer> kept_at(const Spec& from, const Spec& to, int64_t position) {
  return transfers(held_at(from, position), held_at(to, position));
}

int64_t Region::numel() const {
  int64_t n = 1;
  for (const auto& list : lists) n *= length(list);
  return n;
}

int64_t Route::bytes() const {
  int64_t total = 0;
  for (const auto& s : steps) total += s.bytes;
  return total;
}

ReductionOrder Route::order(bool by_library) const {
  if (by_library && reduced_by_library(*from)) return order_by_library(*this);
  std::vector<int64_t> mesh_dims;
  for (const auto& s : steps)
    if (s.kind == StepKind::kAllReduce || s.kind == StepKind::kReduceScatter) mesh_dims.push_back(s.mesh_dim);
  return fold_over(*from, mesh_dims);
}

Route route(const SpecPtr& from, const SpecPtr& to) {
  if (*from == *to) return {from, to, {}};
  return Planner(from, to).plan();
}

std::vector<int64_t> innermost(const std::vector<int64_t>& order, int64_t mesh_dim) {
  auto result = order;
  result.erase(std::find(result.begin(), result.end(), mesh_dim));
  result.push_back(mesh_dim);
  return result;
}

bool is_innermost(const Spec& spec, int64_t mesh_dim) {
  const int64_t dim = shard_dim(spec.placements()[as_size(mesh_dim)]);
  bool after = false;
  for (const int64_t d : spec.order()) {
    if (d == mesh_dim)
      after = true;
    else if (after && spec.mesh().size(d) > 1 && shard_dim(spec.placements()[as_size(d)]) == dim)
      return false;
  }
  return true;
}

Placements dual(const Placements& placements) {
  Placements result = placements;
  for (auto& p : result)
    if (is_partial(p)) p = Replicate{};
  return result;
}

Moves::Moves(const Spec& from, const Spec& to)
    : from_(from),
      to_(to),
      stand_(standing_in(from.mesh(), to.mesh())),
      standing_(as_size(from.mesh().size())) {
  for (int64_t target = 0; target < to.mesh().size(); ++target) {
    auto& stands = stand_[as_size(target)];
    if (stands < 0) stands = target % from.mesh().size();
    standing_[as_size(stands)].push_back(target);
  }
}

// The positions that differ along mesh dimensions that distribute.
std::vector<int64_t> Moves::alike(int64_t position) const {
  const auto& mesh = from_.mesh();
  std::vector<int64_t> found{position};
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    if (!distributes(from_.placements()[as_size(d)])) continue;
    std::vector<int64_t> more;
    for (const int64_t p : found)
      for (const int64_t q : mesh.line(p, d)) more.push_back(q);
    found = std::move(more);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int64_t> Moves::sources(int64_t target) const {
  return alike(stand_[as_size(target)]);
}

std::vector<int64_t> Moves::targets(int64_t source) const {
  std::vector<int64_t> found;
  for (const int64_t p : alike(source))
    found.insert(found.end(), standing_[as_size(p)].begin(), standing_[as_size(p)].end());
  std::sort(found.begin(), found.end());
  return found;
}

const Holding& Moves::held(std::map<int64_t, Holding>& known, const Spec& spec, int64_t position) {
  const auto found = known.find(position);
  if (found != known.end()) return found->second;
  return known.emplace(position, held_at(spec, position)).first->second;
}

const std::vector<Transfer>& Moves::between(int64_t source, int64_t target) {
  const auto [found, fresh] = between_.try_emplace({source, target});
  if (fresh) found->second = transfers(held(sources_, from_, source), held(targets_, to_, target));
  return found->second;
}

const char* name(StepKind kind) {
  // In the order of StepKind.
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "slice",       "all_gather",
                                    "all_to_all", "exchange",       "make_partial"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_string(const Step& s) {
  const auto placed = [](const Spec& spec) {
    const auto text = to_string(spec);
    return text.substr(text.find('@') + 1);
  };
  const std::string along =
      s.mesh_dim < 0 ? "" : concat(" along ", s.from->mesh().names()[as_size(s.mesh_dim)]);
  return concat(name(s.kind), along, " ", placed(*s.from), " -> ", placed(*s.to), " (", s.bytes, " bytes)");
}

std::string to_string(const Route& r) {
  std::string text;
  for (const auto& s : r.steps) text += to_string(s) + "\n";
  return text;
}

}  // namespace lockstep
