// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

using Tensors = std::vector<BlockTensor>;

int64_t up_to_multiple(int64_t n, int64_t of) {
  return (n + of - 1) / of * of;
}

int64_t total(const Tensors& tensors) {
  int64_t sum = 0;
  for (const auto& t : tensors) sum += t.elements;
  return sum;
}

// nullopt: above `most`.
std::optional<int64_t> lcm_up_to(int64_t a, int64_t b, int64_t most) {
  const int64_t factor = b / std::gcd(a, b);
  return a > most / factor ? std::nullopt : std::optional(a * factor);
}

Tensors largest_first(Tensors tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.elements > b.elements; });
  return tensors;
}

// After how many elements the blocks of a tensor lie as they did.
int64_t recurrence(const BlockTensor& t) {
  const bool anew = t.period > 0 && t.period < t.elements;
  return anew && t.period % t.granularity != 0 ? t.period : t.granularity;
}

// What a tensor's first n elements have of blocks, where `blocks` tells it of so many that begin with one.
template <class Blocks>
int64_t sum_of_periods(const BlockTensor& t, int64_t n, const Blocks& blocks) {
  return t.period == 0 ? blocks(n) : n / t.period * blocks(t.period) + blocks(n % t.period);
}

// How many blocks begin there.
int64_t begun(const BlockTensor& t, int64_t n) {
  return sum_of_periods(t, n, [&](int64_t of) { return (of + t.granularity - 1) / t.granularity; });
}

// How many of all of them are whole.
int64_t whole_blocks(const BlockTensor& t) {
  return sum_of_periods(t, t.elements, [&](int64_t of) { return of / t.granularity; });
}

// What divides the elements from where one block begins to where any other does.
int64_t common_step(const BlockTensor& t) {
  return std::gcd(t.granularity, recurrence(t));
}

bool begins_anew(const BlockTensor& t) {
  return recurrence(t) != t.granularity;
}

// How many elements hold all tensors one behind the other.
int64_t whole(const Tensors& tensors, const PlanOptions& o) {
  int64_t end = 0;
  for (const auto& t : tensors) end = up_to_multiple(end, o.start_align) + t.elements;
  return end;
}

// So that no product of two of these overflows.
constexpr int64_t kMostElements = int64_t{1} << 38, kMostShards = 1 << 24, kMostAlignment = 1 << 16;
constexpr int64_t kMostBlocks = 1 << 16;  // of all tensors, from where they begin anew to where they do again

void check_count(const char* what, int64_t count, int64_t most) {
  LOCKSTEP_CHECK(count >= 1 && count <= most, "[planner] ", what, " ", count, ": give 1 to ", most);
}

void check(const Tensors& tensors, const PlanOptions& o) {
  check_count("ranks", o.shards, kMostShards);
  check_count("alignment", o.alignment, kMostAlignment);
  check_count("start-align", o.start_align, kMostAlignment);
  int64_t sum = 0, anew = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [elements, granularity, period] = tensors[i];
    LOCKSTEP_CHECK(elements >= 0 && elements <= kMostElements - sum, "[planner] tensor ", i, " has ",
                   elements, " elements, those before it ", sum, "; give 0 to ", kMostElements, " in all");
    LOCKSTEP_CHECK(granularity >= 1 && granularity <= kMostElements, "[planner] tensor ", i,
                   " has blocks of ", granularity, " elements; give 1 to ", kMostElements);
    LOCKSTEP_CHECK(period >= 0 && period <= kMostElements, "[planner] blocks of tensor ", i,
                   " begin anew after ", period, " elements; give 0 to ", kMostElements, ", 0 for nowhere");
    if (begins_anew(tensors[i])) anew += period / granularity + 1;
    LOCKSTEP_CHECK(anew <= kMostBlocks, "[planner] tensor ", i, " and those before it have ", anew,
                   " blocks before these begin anew; give at most ", kMostBlocks, " in all");
    sum += elements;
  }
}

// Where the last block begins that does so in the first n elements or behind them, at a multiple of `align`.
int64_t last_begin(const BlockTensor& t, int64_t n, int64_t align) {
  if (!begins_anew(t)) {
    const int64_t step = align == 1 ? t.granularity : std::lcm(t.granularity, align);
    return n - n % step;
  }
  const auto before = [&](int64_t at) { return at - at % t.period % t.granularity; };
  for (n = before(n); n % align != 0; n = before(n - 1)) {
  }
  return n;
}

// Whether a tensor may have all of a shard: from where one of its blocks begins to where another does. That
// one has whose blocks do not recur with the regime is tried in one size only.
bool may_have_all(const BlockTensor& t, int64_t size, int64_t regime) {
  const int64_t recurs = recurrence(t);
  if (regime % recurs == 0 || regime != size) return regime % recurs == 0;
  const int64_t rest = size % recurs;
  return rest % t.granularity == 0 || (recurs - rest) % t.granularity == 0;
}

// Whether blocks begin where shards end in a tensor, of which the first shard has so many elements, where a
// block begins.
bool lies_well(const BlockTensor& t, int64_t offset, int64_t size) {
  const int64_t recurs = recurrence(t);
  if (size % recurs == 0) return true;
  for (int64_t at = offset + size; at < t.elements; at += size)
    if (at % recurs % t.granularity != 0) return false;
  return true;
}

// Where a tensor may lie first, from `from` on. Whether it may goes by how far before the end of a shard it
// starts, so that what is not found in two shards is in none. Of the starts of a shard at which a block ends
// with it the first speaks for all, but if blocks begin anew and it has all of a shard: then for those that
// come a period later, too, since ends of shards are nowhere else in it.
// @param looked counts these starts
std::optional<int64_t> first_start(const BlockTensor& t, int64_t from, int64_t size, int64_t align,
                                   int64_t regime, int64_t& looked) {
  const bool may = may_have_all(t, size, regime), tries = may && begins_anew(t);
  if (!may && t.elements > 2 * size) return std::nullopt;
  from = up_to_multiple(from, align);
  for (int64_t shard = 0; shard < 2; ++shard) {
    const int64_t next = (from / size + 1) * size;  // the first boundary after `from`
    if (from + t.elements <= next) return from;
    // Shards begin at multiples of `align`.
    int64_t offset = last_begin(t, next - from, align);
    const int64_t last = tries ? std::max<int64_t>(offset - std::lcm(t.period, align), 0) : 0;
    for (; tries && offset > last && !lies_well(t, offset, size); ++looked)
      offset = last_begin(t, offset - 1, align);
    if (offset > last && (may || offset + size >= t.elements)) return next - offset;
    from = next;
  }
  return std::nullopt;
}

std::optional<std::vector<Interval>> place_in(const Tensors& tensors, int64_t size, int64_t regime,
                                              const PlanOptions& o, int64_t& looked) {
  std::vector<Interval> intervals;
  intervals.reserve(tensors.size());
  int64_t from = 0;
  for (const auto& t : tensors) {
    const auto start = first_start(t, from, size, o.start_align, regime, looked);
    if (!start || *start + t.elements > o.shards * size) return std::nullopt;
    intervals.push_back({*start, from = *start + t.elements});
  }
  return intervals;
}

std::optional<std::vector<Interval>> place_in(const Tensors& tensors, int64_t size, int64_t regime,
                                              const PlanOptions& o) {
  int64_t looked = 0;
  return place_in(tensors, size, regime, o, looked);
}

// The alignment alone, and with what the blocks of the largest tensors recur in: mostly these have all of a
// shard. Distinct, and no more than there are elements.
std::vector<int64_t> regimes(const Tensors& tensors, int64_t alignment, int64_t most) {
  std::vector<int64_t> found{alignment};
  for (const auto& t : largest_first(tensors)) {
    const auto next = lcm_up_to(found.back(), recurrence(t), std::max(most, alignment));
    if (!next) break;
    if (*next != found.back()) found.push_back(*next);
  }
  return found;
}

// The least multiple of `regime` from `least` to below `most` that fits, or `most`.
int64_t least_in_regime(const Tensors& tensors, int64_t regime, int64_t least, int64_t most,
                        const PlanOptions& o) {
  const auto fits = [&](int64_t times) { return place_in(tensors, times * regime, regime, o).has_value(); };
  int64_t low = up_to_multiple(least, regime) / regime, high = (most - 1) / regime;
  if (low > high || !fits(high)) return most;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low * regime;
}

int64_t alignment_of(const PlanOptions& o) {
  return std::lcm(o.alignment, o.start_align);
}

// Shard sizes: `first`, and every `step` elements more.
struct Comb {
  int64_t step = 1, first = 0;
  auto operator<=>(const Comb&) const = default;
};

// In what sizes a tensor may have all of a shard: from where one of its blocks begins to where another does.
// Empty: in all that are aligned, or in none up to `most`.
std::vector<Comb> whole_shards(const BlockTensor& t, int64_t align, int64_t most) {
  if (!begins_anew(t)) {
    const auto step = lcm_up_to(align, t.granularity, most);
    return step && *step != align ? std::vector<Comb>{{*step, 0}} : std::vector<Comb>{};
  }
  if (align % t.period == 0) return {};
  std::vector<Comb> all;
  for (int64_t begin = 0; begin < t.period; begin += t.granularity) {
    all.push_back({t.period, begin});
    if (begin > 0) all.push_back({t.period, t.period - begin});
  }
  return all;
}

// The elements of the largest tensor that may have all of a shard of such sizes.
std::map<Comb, int64_t> most_by_comb(const Tensors& tensors, int64_t align, int64_t size) {
  std::map<Comb, int64_t> most;
  for (const auto& t : tensors)
    for (const auto& comb : whole_shards(t, align, size)) {
      auto& elements = most[comb];
      elements = std::max(elements, t.elements);
    }
  return most;
}

struct Size {
  int64_t elements = 0;
  bool is_least = true;
};

// In the order given. In the least size either no tensor has all of a shard but those whose blocks recur with
// the alignment, which is that regime; or one has, and the size is from one of its blocks to another and not
// above its elements.
Size shard_size(const Tensors& tensors, const PlanOptions& o) {
  const int64_t align = alignment_of(o);
  const int64_t least = up_to_multiple((total(tensors) + o.shards - 1) / o.shards, align);
  if (least == 0) return {};
  Size size{up_to_multiple(whole(tensors, o), align), true};  // all in the first shard
  for (const int64_t regime : regimes(tensors, align, size.elements))
    size.elements = least_in_regime(tensors, regime, least, size.elements, o);
  int64_t tries = o.tries;
  for (const auto& [comb, most] : most_by_comb(tensors, align, size.elements))
    for (int64_t s = comb.first + up_to_multiple(std::max<int64_t>(least - comb.first, 0), comb.step);
         s < size.elements && s <= most; s += comb.step) {
      if (tries < std::ssize(tensors)) return {size.elements, false};
      int64_t looked = std::ssize(tensors);
      if (s % align == 0 && place_in(tensors, s, s, o, looked)) size.elements = s;
      tries -= looked;
    }
  return size;
}

std::vector<size_t> sorted_by(const Tensors& tensors, int64_t BlockTensor::*what) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (what != nullptr)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return tensors[a].*what > tensors[b].*what; });
  return order;
}

struct OrderRow {
  const char* name;
  Order order;
  int64_t BlockTensor::*by;
};
constexpr OrderRow kOrders[] = {{"default", Order::kDefault, nullptr},
                                {"block", Order::kBlock, &BlockTensor::granularity},
                                {"shape", Order::kShape, &BlockTensor::elements},
                                {"best", Order::kBest, nullptr}};
constexpr auto kOwnOrders = std::span(kOrders).first(3);

BufferPlan plan_in(const std::vector<size_t>& order, const Tensors& sorted, Order name,
                   const PlanOptions& o) {
  const auto [size, is_least] = shard_size(sorted, o);
  BufferPlan made{o.shards, size, name, is_least, std::vector<Interval>(sorted.size())};
  if (made.shard_size == 0) return made;
  const auto placed = place_in(sorted, made.shard_size, made.shard_size, o);
  if (!placed) throw Broken(concat("[planner] shards of ", made.shard_size, " hold the tensors no more"));
  for (size_t k = 0; k < order.size(); ++k) made.intervals[order[k]] = (*placed)[k];
  return made;
}

}  // namespace

Order parse_order(const std::string& text) {
  for (const auto& row : kOrders)
    if (text == row.name) return row.order;
  throw Error(concat("[planner] order '", text, "': write default, block, shape or best"));
}

const char* name(Order order) {
  return kOrders[static_cast<size_t>(order)].name;
}

int64_t BufferPlan::padding() const {
  int64_t used = 0;
  for (const auto& [start, end] : intervals) used += end - start;
  return shards * shard_size - used;
}

BufferPlan plan(const std::vector<BlockTensor>& tensors, const PlanOptions& options) {
  check(tensors, options);
  std::optional<BufferPlan> best;
  std::vector<Tensors> tried;
  for (const auto& row : kOwnOrders) {
    if (options.order != row.order && options.order != Order::kBest) continue;
    const auto order = sorted_by(tensors, row.by);
    Tensors sorted;
    for (const size_t i : order) sorted.push_back(tensors[i]);
    if (std::find(tried.begin(), tried.end(), sorted) != tried.end()) continue;
    tried.push_back(sorted);
    auto made = plan_in(order, sorted, row.order, options);
    if (!best || made.shard_size < best->shard_size) best = std::move(made);
  }
  return *best;
}

std::optional<std::vector<Interval>> place(const std::vector<BlockTensor>& tensors, int64_t shard_size,
                                           int64_t regime, const PlanOptions& options) {
  check(tensors, options);
  const int64_t align = alignment_of(options);
  LOCKSTEP_CHECK(regime >= 1 && regime % align == 0 && shard_size >= 1 && shard_size % regime == 0,
                 "[planner] shards of ", shard_size, " elements in the regime ", regime,
                 ": give a multiple of it, and it of ", align, ", as they are aligned");
  return place_in(tensors, shard_size, regime, options);
}

std::vector<int64_t> units(const BlockTensor& tensor, const Interval& interval, const BufferPlan& plan) {
  std::vector<int64_t> counts(as_size(plan.shards), 0);
  if (interval.start == interval.end) return counts;
  int64_t before = 0;
  for (int64_t shard = interval.start / plan.shard_size, end = 0; end < interval.end; ++shard) {
    end = std::min(interval.end, (shard + 1) * plan.shard_size);
    const int64_t by_now = begun(tensor, end - interval.start);
    counts[as_size(shard)] = by_now - before;
    before = by_now;
  }
  return counts;
}

int64_t least_shard_size(const std::vector<BlockTensor>& tensors, const PlanOptions& options) {
  check(tensors, options);
  const int64_t align = alignment_of(options);
  int64_t least = up_to_multiple((total(tensors) + options.shards - 1) / options.shards, align);
  if (least == 0) return 0;
  for (const auto& of : tensors) {
    int64_t count = 0;  // of whole blocks of this granularity
    for (const auto& t : tensors)
      if (t.granularity == of.granularity) count += whole_blocks(t);
    const int64_t share = (count + options.shards - 1) / options.shards;
    least = std::max(least, up_to_multiple(share * of.granularity, align));
  }
  const auto sorted = largest_first(tensors);
  // The first k are those of at least two shards: from the most on, the shards are larger.
  int64_t best = -1, regime = align;
  for (size_t k = 0; k <= sorted.size(); ++k) {
    const int64_t most = k == 0 ? -1 : sorted[k - 1].elements / 2;
    const int64_t above = k == sorted.size() ? 0 : sorted[k].elements / 2 + 1;
    if (k > 0) {
      const auto next = lcm_up_to(regime, common_step(sorted[k - 1]), std::max<int64_t>(most, 1));
      if (!next) break;
      regime = *next;
    }
    const int64_t size = up_to_multiple(std::max(least, above), regime);
    if ((k == 0 || size <= most) && (best < 0 || size < best)) best = size;
  }
  return best;
}

}  // namespace lockstep::fsdp
