// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/step_plan.h"

#include <c10/core/ScalarType.h>
#include <c10/util/safe_numerics.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/fsdp/group_layout.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

constexpr const char* kTooMany =
    " bytes are more than an integer of 64 bits holds; give fewer ranks or smaller tensors";

int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  LOCKSTEP_CHECK(!c10::mul_overflows(a, b, &product), "[step plan] ", a, " times ", b, kTooMany);
  return product;
}

int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  LOCKSTEP_CHECK(!c10::add_overflows(a, b, &sum), "[step plan] ", a, " and ", b, kTooMany);
  return sum;
}

int64_t size_of(c10::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

bool reshards(const StepOptions& o, bool is_outermost) {
  return o.reshard_after_forward.reshards.value_or(!is_outermost);
}

// In which dtypes a group's elements are at each stage.
struct Dtypes {
  explicit Dtypes(const StepOptions& o)
      : cut(o.dtype),
        gathered(o.policy.param_dtype.value_or(cut)),
        reduced(o.policy.reduce_dtype.value_or(gathered)) {}
  c10::ScalarType cut, gathered, reduced;
};

// What a module of one group holds, in bytes of a rank, apart from what depends on which rank it is.
struct Sizes {
  int64_t shard = 0, cast = 0, whole = 0;
  int64_t kept = 0;  // after forward, of what is cut among some
  // Of whole gradients, as they come, and as they are reduced; at most while one becomes the other.
  int64_t early = 0, gradients = 0, terms = 0, casting = 0;
  int64_t reduced = 0;  // of a shard, in the dtype of terms
};

// Elements of gradients that end in each shard.
std::vector<int64_t> parts_of(const BufferPlan& plan) {
  std::vector<int64_t> parts(as_size(plan.shards));
  for (const auto& [start, end] : plan.intervals)
    for (int64_t at = start; at < end;) {
      const int64_t shard = at / plan.shard_size, until = std::min(end, (shard + 1) * plan.shard_size);
      parts[as_size(shard)] += until - at;
      at = until;
    }
  return parts;
}

Sizes sizes_of(const StepGroup& group, const BufferPlan& plan, const Dtypes& dtypes,
               std::optional<int64_t> among) {
  Sizes s;
  s.shard = plan.shard_size * size_of(dtypes.cut);
  s.cast = dtypes.gathered == dtypes.cut ? 0 : plan.shard_size * size_of(dtypes.gathered);
  s.reduced = plan.shard_size * size_of(dtypes.reduced);
  s.whole = times(plan.shards * plan.shard_size, size_of(dtypes.gathered));
  if (among) s.kept = s.whole / *among;
  int64_t came = 0;
  for (const auto& t : group.tensors) came += t.elements * size_of(dtypes.gathered);
  const bool casts = dtypes.reduced != dtypes.gathered;
  s.casting = s.gradients = came;
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    const int64_t elements = group.tensors[i].elements;
    if (std::cmp_greater_equal(i, group.before)) s.early += elements * size_of(dtypes.gathered);
    s.terms += elements * size_of(dtypes.reduced);
    if (casts) s.casting = std::max(s.casting, came + s.terms);
    came -= elements * size_of(dtypes.gathered);
  }
  return s;
}

// ---- what is moved ----

Moved sending(std::vector<int64_t> sent, int64_t replicas) {
  Moved moved{1, 0, std::move(sent)};
  for (const int64_t bytes : moved.sent) moved.bytes = plus(moved.bytes, times(bytes, replicas));
  return moved;
}

// Whole shards, to all others; of what is cut among some, to these.
Moved gather_of(const BufferPlan& plan, const Dtypes& dtypes, int64_t replicas, int64_t among) {
  const int64_t each = times((among - 1) * (plan.shards / among) * plan.shard_size, size_of(dtypes.gathered));
  return sending(std::vector<int64_t>(as_size(plan.shards), each), replicas);
}

// Terms of tensors, without padding: all but those that the rank keeps.
Moved reduce_of(const std::vector<int64_t>& parts, const Dtypes& dtypes, int64_t replicas) {
  const int64_t all = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  std::vector<int64_t> sent;
  for (const int64_t part : parts) sent.push_back((all - part) * size_of(dtypes.reduced));
  return sending(std::move(sent), replicas);
}

// Of a part that replicas hold each sends all to all others.
Moved all_reduce_of(const std::vector<int64_t>& parts, const Dtypes& dtypes, int64_t replicas) {
  std::vector<int64_t> sent;
  for (const int64_t part : parts) sent.push_back(times(part * size_of(dtypes.reduced), replicas - 1));
  return sending(std::move(sent), replicas);
}

void add(Moved& all, const Moved& one, int64_t count) {
  all.calls += count * one.calls;
  all.bytes = plus(all.bytes, times(one.bytes, count));
  all.sent.resize(std::max(all.sent.size(), one.sent.size()));
  for (size_t i = 0; i < one.sent.size(); ++i) all.sent[i] = plus(all.sent[i], times(one.sent[i], count));
}

// ---- what is held ----

// A step as unit.cpp takes it, of any rank: each allocation and each release, in their order.
class Walk {
 public:
  // @param modules the outermost first, then in the order in which they run
  Walk(const std::vector<const Sizes*>& modules, const StepOptions& o) : o_(o), dtypes_(o) {
    for (const auto* sizes : modules) {
      modules_.push_back({sizes});
      now_.shards += sizes->shard;
    }
    note();
  }

  Held peak() && {
    forward();
    backward();
    return peak_;
  }

 private:
  enum class State { kCut, kOnTheWay, kGathered };
  struct Module {
    const Sizes* sizes;
    State state = State::kCut;
    bool is_kept = false;  // among some
  };
  using Sequence = std::vector<Module*>;  // the outermost first

  void note() {
    if (now_.total() > peak_.total()) peak_ = now_;
  }

  void begin(Module& m) {
    if (m.state != State::kCut) return;
    now_.gathered += m.sizes->whole;
    if (!m.is_kept) now_.gathered += m.sizes->cast;
    m.state = State::kOnTheWay;
    note();
  }
  void gather(const Sequence& order, size_t i, int64_t prefetch) {
    auto& m = *order[i];
    begin(m);
    if (m.state == State::kOnTheWay)
      now_.gathered -= std::exchange(m.is_kept, false) ? m.sizes->kept : m.sizes->cast;
    m.state = State::kGathered;
    for (size_t next = i + 1; next < order.size() && std::cmp_less_equal(next - i, prefetch); ++next)
      begin(*order[next]);
  }
  void release(Module& m) {
    now_.gathered -= m.sizes->whole;
    m.state = State::kCut;
  }
  void release_after_forward(Module& m) {
    m.is_kept = m.sizes->kept > 0;
    if (m.is_kept) now_.gathered += m.sizes->kept;
    note();
    release(m);
  }

  void forward() {
    Sequence order;
    for (auto& m : modules_) order.push_back(&m);
    for (size_t i = 0; i < order.size(); ++i) {
      gather(order, i, o_.prefetch);
      if (i > 0 && reshards(o_, false)) release_after_forward(*order[i]);
    }
    if (reshards(o_, true)) release_after_forward(modules_.front());
  }

  void come(int64_t bytes) {
    now_.gradients += bytes;
    note();
  }

  void backward() {
    auto& outermost = modules_.front();
    Sequence order{&outermost};
    for (size_t i = modules_.size() - 1; i > 0; --i) order.push_back(&modules_[i]);
    const auto prefetch = std::max<int64_t>(o_.prefetch, 1);
    gather(order, 0, prefetch);
    come(outermost.sizes->early);
    for (size_t i = 1; i < order.size(); ++i) {
      gather(order, i, prefetch);
      come(order[i]->sizes->gradients);
      collect(*order[i]);
      release(*order[i]);
    }
    come(outermost.sizes->gradients - outermost.sizes->early);
    collect(outermost);
    make_way();
    make_way();
    for (const auto* m : order) hand_over(*m);
  }

  // One reduction at a time is on its way to shards, and one over replicas: those before make way first.
  void collect(Module& m) {
    auto casting = now_;
    casting.gradients += m.sizes->casting - m.sizes->gradients;
    if (casting.total() > peak_.total()) peak_ = casting;
    now_.gradients += m.sizes->terms - m.sizes->gradients;
    make_way();
    scattering_ = &m;
  }
  // What is folded: of HSDP once more, when terms are gone.
  void make_way() {
    if (const auto* last = std::exchange(adding_up_, nullptr)) {
      now_.reduced += last->sizes->reduced;
      note();
      now_.reduced -= last->sizes->reduced;
    }
    const auto* last = std::exchange(scattering_, nullptr);
    if (last == nullptr) return;
    now_.reduced += last->sizes->reduced;
    note();
    now_.gradients -= last->sizes->terms;
    if (o_.replicas > 1) adding_up_ = last;
  }
  void hand_over(const Module& m) {
    if (dtypes_.reduced == dtypes_.cut) return;
    now_.reduced += m.sizes->shard;
    note();
    now_.reduced -= m.sizes->reduced;
  }

  const StepOptions& o_;
  const Dtypes dtypes_;
  std::vector<Module> modules_;
  const Module *scattering_ = nullptr, *adding_up_ = nullptr;
  Held now_, peak_;
};

void check(const std::vector<StepGroup>& groups, const StepOptions& o) {
  constexpr int64_t kMostRanks = 1 << 16, kMostModules = 1 << 16;
  LOCKSTEP_CHECK(!groups.empty() && groups.front().count == 1,
                 "[step plan] the first group is the outermost module, one; it may have no tensors");
  LOCKSTEP_CHECK(o.replicas >= 1 && o.shards >= 1 && o.shards <= kMostRanks / o.replicas, "[step plan] ",
                 o.replicas, " times ", o.shards, " ranks: give 1 to ", kMostRanks, " in all");
  LOCKSTEP_CHECK(o.reshard_after_forward.fits(o.shards), "[step plan] parameters are cut among ",
                 *o.reshard_after_forward.among, " of ", o.shards,
                 " ranks after forward; give a divisor of these");
  LOCKSTEP_CHECK(o.prefetch >= 0, "[step plan] ", o.prefetch,
                 " modules are prefetched; give 0 for none, or how many");
  int64_t modules = 0;
  for (const auto& group : groups) {
    LOCKSTEP_CHECK(group.count >= 1 && group.count <= kMostModules - modules, "[step plan] ", group.count,
                   " modules of one group, after ", modules, "; give 1 to ", kMostModules, " in all");
    modules += group.count;
  }
  const Dtypes dtypes(o);
  for (const auto dtype : {dtypes.cut, dtypes.gathered, dtypes.reduced})
    LOCKSTEP_CHECK(c10::isFloatingType(dtype), "[step plan] parameters or gradients of ", dtype,
                   ", in which there are no gradients; name a floating dtype");
}

// That nothing a Walk adds up overflows: shards, gradients and their terms are each at most 8 times what is
// gathered, and together there are not so many.
void check_sums(const std::vector<StepGroup>& groups, const std::vector<Sizes>& sizes) {
  int64_t most = 0;
  for (size_t i = 0; i < groups.size(); ++i)
    most = plus(most, times(64, times(groups[i].count, sizes[i].whole)));
}

}  // namespace

StepPlan plan_step(const std::vector<StepGroup>& groups, const StepOptions& asked) {
  check(groups, asked);
  auto o = asked;
  o.reshard_after_forward = asked.reshard_after_forward.on(asked.shards);
  const Dtypes dtypes(o);
  StepPlan step;
  std::vector<Sizes> sizes;
  for (const auto& group : groups) {
    auto& made = step.groups.emplace_back();
    made.plan =
        plan(group.tensors, buffer_options(o.shards, o.order, {dtypes.cut, dtypes.gathered, dtypes.reduced}));
    sizes.push_back(sizes_of(group, made.plan, dtypes, o.reshard_after_forward.among));
    if (group.tensors.empty()) continue;
    made.moves.gather_forward = gather_of(made.plan, dtypes, o.replicas, o.shards);
    if (reshards(o, step.groups.size() == 1))
      made.moves.gather_backward =
          gather_of(made.plan, dtypes, o.replicas, o.reshard_after_forward.among.value_or(o.shards));
    const auto parts = parts_of(made.plan);
    made.moves.reduce_scatter = reduce_of(parts, dtypes, o.replicas);
    if (o.replicas > 1) made.moves.all_reduce = all_reduce_of(parts, dtypes, o.replicas);
    for (const auto which : kMoves) add(step.moves.*which, made.moves.*which, group.count);
  }
  check_sums(groups, sizes);
  std::vector<const Sizes*> modules;
  for (size_t i = 0; i < groups.size(); ++i)
    modules.insert(modules.end(), as_size(groups[i].count), &sizes[i]);
  step.peak = Walk(modules, o).peak();
  return step;
}

}  // namespace lockstep::fsdp
